"""Images made on the device are the CPU's to a gray level, with the same crops and flips; evaluation images exactly."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from protocols.audit import Audit, AuditFailure
from protocols.catalogue import LITE_V1, MLRC_V1
from protocols.datasets import load_dataset
from protocols.datasets.device import DeviceImages, _memory_of
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


class Card:
    """The memory of a device of 100 images, on which workers and others take what they take."""

    def __init__(self, image_bytes: int, *taken: int) -> None:
        self.image_bytes, self.taken, self.asked = image_bytes, list(taken), 0
        self.workers: list[DeviceImages] = []

    def __call__(self) -> tuple[int, int]:
        self.asked += 1
        resident = sum(len(worker._resident) for worker in self.workers)
        return (100 - sum(self.taken) - resident) * self.image_bytes, 100 * self.image_bytes


def workers_of(card: Card, n_workers: int) -> list[DeviceImages]:
    images, _ = both(LITE_V1, "cpu")
    card.workers = [
        DeviceImages(images.transform, torch.device("cpu"), images._resize, memory=card) for _ in range(n_workers)
    ]
    return card.workers


IMAGE_BYTES = 3 * LITE_V1.transforms.resize_px**2


def test_images_of_all_workers_of_a_device_leave_half_of_it_free() -> None:
    card = Card(IMAGE_BYTES, 10, 10)  # two networks
    first, second = workers_of(card, 2)
    for start in range(0, 72, 8):
        for worker in (first, second):
            worker.eval(list(range(start, start + 8)))
    assert len(first._resident) + len(second._resident) == 30
    assert min(len(first._resident), len(second._resident)) >= 14
    card.taken = [10]  # one has ended
    first.train(list(range(72)), list(range(72)))
    assert len(first._resident) + len(second._resident) == 40


def test_where_others_hold_the_device_images_are_sent_each_time_and_are_the_same() -> None:
    images, _ = both(LITE_V1, "cpu")
    card = Card(IMAGE_BYTES, 60)
    (worker,) = workers_of(card, 1)
    for _ in range(2):
        assert torch.equal(worker.eval([3, 1, 3]), images.eval([3, 1, 3]))
    assert worker._resident == {}


def test_a_device_is_asked_once_a_batch_and_not_for_images_that_are_there() -> None:
    card = Card(IMAGE_BYTES)
    (worker,) = workers_of(card, 1)
    for batch in ([0, 1, 2, 3], [1, 3], [3, 4, 5], [0, 5]):
        worker.train(batch, batch)
    assert card.asked == 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_room_on_a_device_follows_what_is_free_there() -> None:
    free, total = _memory_of(torch.device("cuda"))
    held = torch.empty(total // 8, dtype=torch.uint8, device="cuda")
    assert _memory_of(torch.device("cuda")) == (pytest.approx(free - held.nbytes, abs=2**26), total)


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
