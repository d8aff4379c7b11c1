"""Peak memory of this process."""

import sys

import torch


def peak_memory_bytes(device: str) -> int:
    """Peak bytes on the device, or of the process on a CPU; 0 where the system does not tell."""
    if device.startswith("cuda"):
        return int(torch.cuda.max_memory_allocated(device))
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
