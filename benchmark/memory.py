"""Memory of this process: its peak, and how it is held between two steps."""

import ctypes
import os
import platform
import sys
from pathlib import Path

import torch

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # names of glibc's malloc.h
_C_INT_MAX = 2**31 - 1


def peak_memory_bytes(device: str) -> int:
    """Peak bytes on the device, or of the process on a CPU; 0 where the system does not tell."""
    if device.startswith("cuda"):
        return int(torch.cuda.max_memory_allocated(device))
    if platform.system() == "Linux":  # of this process alone: what getrusage tells begins with the peak of its parent
        return resident_peak_bytes(os.getpid())
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_peak_bytes(process: int) -> int:
    """Peak bytes of a process of this machine; 0 where it has ended, or the system does not tell."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    _, is_told, after = status.partition("VmHWM:")
    return int(after.split()[0]) * 1024 if is_told else 0  # a process that has ended, and is not buried, has none


def prefer_huge_pages() -> None:
    """Let processes that are started from now on hold their heap in huge pages (glibc only; elsewhere nothing).

    Two workers share the machine's memory, and each page they need not look up is time that they do not wait for.
    """
    os.environ.setdefault("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")


def retain_heap() -> None:
    """Keep freed memory for the next step (glibc only; elsewhere nothing).

    glibc hands every large tensor back to the system when it is freed and gets it back page by page: measured, a third
    of a step of `lite` on a CPU. Peak memory grows by about a tenth.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, _C_INT_MAX)
