"""Images made on the device are the CPU's to a gray level, with the same crops and flips; evaluation images exactly."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from protocols.audit import Audit, AuditFailure
from protocols.catalogue import LITE_V1, MLRC_V1
from protocols.datasets import load_dataset
from protocols.datasets.device import DeviceImages
from protocols.datasets.tensors import ImageTensors
from protocols.spec import Protocol
from protocols.transforms import ImageTransforms

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")),
]


def both(protocol: Protocol, device: str) -> tuple[ImageTensors, DeviceImages]:
    """The same images by the path of a CPU and by that of a device."""
    images = ImageTensors(load_dataset("shapes:shifted?train=2&test=2"), protocol.transforms, protocol.trunk.input)
    return images, DeviceImages(images.transform, torch.device(device), images._resize)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("protocol", [MLRC_V1, LITE_V1], ids=lambda protocol: protocol.name)
def test_images_of_a_device_are_those_of_a_cpu(protocol: Protocol, device: str) -> None:
    images, on_device = both(protocol, device)
    chosen, seeds = list(range(0, 24, 3)), list(range(100, 108))
    assert torch.equal(on_device.eval(chosen).cpu(), images.eval(chosen))
    found, wanted = on_device.train(chosen, seeds).cpu(), images.train(chosen, seeds)
    assert found.shape == wanted.shape
    assert found.dtype == torch.float32
    levels = (found - wanted).abs() * torch.tensor(protocol.trunk.input.std)[:, None, None]
    assert levels.max() < 1.01
    assert levels.mean() < 0.1


def test_a_flip_and_a_crop_follow_from_the_seed_and_not_from_the_batch() -> None:
    _, on_device = both(LITE_V1, "cpu")
    together = on_device.train([0, 5, 9, 5], [7, 8, 9, 8])
    assert torch.equal(together[1], together[3])
    assert not torch.equal(together[1], on_device.train([5], [9])[0])
    alone = on_device.train([9], [9])[0]
    assert np.isclose(alone.numpy(), together[2].numpy(), atol=1.01 / 128).all()


@pytest.mark.parametrize("device", DEVICES)
def test_the_audit_s_probes_take_the_path_of_the_batches(device: str) -> None:
    images, images._on_device = both(MLRC_V1, device)
    audit = Audit(MLRC_V1)
    audit.trunk_input(images.eval_probe, partial(images.train_probe, seed=3))
    assert audit.checks[-1].name == "trunk input"
    images._on_device._transform = ImageTransforms(MLRC_V1.transforms, replace(MLRC_V1.trunk.input, channels="RGB"))
    with pytest.raises(AuditFailure, match="red arrives as"):
        Audit(MLRC_V1).trunk_input(images.eval_probe, partial(images.train_probe, seed=3))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_training_batch_never_waits_for_the_device() -> None:
    images, _ = both(LITE_V1, "cuda")
    tensors = ImageTensors(images._index, LITE_V1.transforms, LITE_V1.trunk.input, device="cuda")
    tensors.train([0, 1], [0, 1])
    torch.cuda.set_sync_debug_mode("error")
    try:
        assert tensors.train([0, 1, 2], [3, 4, 5]).is_cuda
    finally:
        torch.cuda.set_sync_debug_mode("default")
