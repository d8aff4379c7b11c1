"""Transforms against torchvision on Pillow images, and image tensors that no cache, order or batch can change."""

import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import ks_2samp
from torch.utils.data import DataLoader
from torchvision.transforms import RandomResizedCrop, v2
from torchvision.transforms.v2 import functional as vision

from protocols.catalogue import BN_INCEPTION_INPUT, CONV3_INPUT, EFFICIENTNET_LITE_INPUT, LITE_V1, MINI_V1, MLRC_V1
from protocols.datasets import load_dataset, tensors
from protocols.datasets.cache import PixelCache
from protocols.datasets.prepare import prepare
from protocols.datasets.tensors import ImageTensors
from protocols.errors import DataError
from protocols.spec import Input
from protocols.transforms import ImageTransforms, random_box, to_input

MLRC = ImageTransforms(MLRC_V1.transforms, MLRC_V1.trunk.input)
LEVELS = Input(channels="RGB", scale=255.0, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), per_image=False)  # gray levels
IMAGENET = Input(channels="RGB", scale=1.0, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), per_image=False)


def _photo(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Smooth colours with noise on them."""
    generator = np.random.default_rng(seed)
    coarse = Image.fromarray(generator.integers(0, 256, (6, 6, 3), dtype=np.uint8)).resize((width, height))
    noisy = np.asarray(coarse, np.int16) + generator.integers(-30, 31, (height, width, 3))
    return noisy.clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("size", [(300, 500), (500, 333), (256, 256), (255, 257), (31, 77), (900, 256), (1, 3)])
def test_evaluation_equals_torchvision_on_pillow_images(size: tuple[int, int]) -> None:
    image = _photo(*size)
    reference = v2.Compose([v2.Resize(256), v2.CenterCrop(227), v2.PILToTensor()])(Image.fromarray(image))
    torch.testing.assert_close(
        ImageTransforms(MLRC_V1.transforms, LEVELS).eval_tensor(image), reference.float(), rtol=0, atol=0
    )
    scaled = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(IMAGENET.mean, IMAGENET.std)])(reference)
    torch.testing.assert_close(
        ImageTransforms(MLRC_V1.transforms, IMAGENET).eval_tensor(image), scaled, rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("seed", range(12))
def test_a_training_crop_is_within_one_gray_level_of_torchvision_given_the_same_box(seed: int) -> None:
    image = _photo(256, 256 + 13 * seed, seed)
    settings = replace(MLRC_V1.transforms, flip_probability=0.0)
    crop = ImageTransforms(settings, LEVELS).train_tensor(image, seed)
    box = random_box(*image.shape[:2], settings, np.random.default_rng(seed))
    reference = vision.pil_to_tensor(vision.resized_crop(Image.fromarray(image), *box, size=[227, 227]))
    assert crop.shape == (3, 227, 227)
    assert (crop - reference).abs().max() <= 1
    assert abs((crop - reference).mean()) < 0.01  # roundings, no drift


def _smooth_photo(height: int, width: int, seed: int) -> np.ndarray:
    """Large soft shapes, finer ones on them, and the grain of a sensor."""
    generator, total = np.random.default_rng(seed), np.zeros((height, width, 3))
    for side, share in ((3, 0.6), (12, 0.3), (48, 0.1)):
        coarse = Image.fromarray(generator.integers(0, 256, (side, side, 3), dtype=np.uint8))
        total += share * np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), float)
    return (total + generator.normal(0, 2, total.shape)).clip(0, 255).astype(np.uint8)


def test_on_natural_images_a_training_crop_is_a_tenth_of_a_level_from_pillow_on_average() -> None:
    settings = replace(MLRC_V1.transforms, flip_probability=0.0)
    crops, apart = ImageTransforms(settings, LEVELS), []
    for seed in range(16):
        image = crops.resize(_smooth_photo(375, 500, seed))
        box = random_box(*image.shape[:2], settings, np.random.default_rng(seed))
        reference = vision.pil_to_tensor(vision.resized_crop(Image.fromarray(image), *box, size=[227, 227]))
        apart.append((crops.train_from_resized(image, seed) - reference).abs())
    assert torch.stack(apart).max() <= 1
    assert torch.stack(apart).mean() < 0.1


def test_boxes_are_distributed_as_torchvision_draws_them() -> None:
    generator, image = np.random.default_rng(0), torch.empty(3, 256, 341)
    ours = np.array([random_box(256, 341, MLRC_V1.transforms, generator) for _ in range(4000)])
    torch.manual_seed(0)
    crop = v2.RandomResizedCrop(227, scale=(0.16, 1.0), ratio=(3 / 4, 4 / 3))
    drawn = [crop.make_params([image]) for _ in range(4000)]
    theirs = np.array([[box[key] for key in ("top", "left", "height", "width")] for box in drawn])
    deviation = theirs.std(0) / np.sqrt(len(theirs))
    assert (np.abs(ours.mean(0) - theirs.mean(0)) < 5 * deviation).all()
    assert np.allclose(ours.std(0), theirs.std(0), rtol=0.06)
    assert (ours[:, :2] >= 0).all()
    assert (ours[:, 0] + ours[:, 2] <= 256).all()
    assert (ours[:, 1] + ours[:, 3] <= 341).all()


@pytest.mark.parametrize("size", [(256, 341), (256, 256), (420, 256), (256, 900)])
def test_boxes_have_torchvisions_distributions_of_area_aspect_place_and_fallback(size: tuple[int, int]) -> None:
    (height, width), n, generator = size, 3000, np.random.default_rng(1)
    ours = np.array([random_box(*size, MLRC_V1.transforms, generator) for _ in range(n)])
    torch.manual_seed(1)
    image = torch.empty(3, *size)
    theirs = np.array([RandomResizedCrop.get_params(image, [0.16, 1.0], [3 / 4, 4 / 3]) for _ in range(n)])

    def told(boxes: np.ndarray) -> dict[str, np.ndarray]:
        top, left, tall, wide = boxes.T
        return {
            "area": tall * wide / (height * width),
            "aspect": wide / tall,
            "down": top / np.maximum(height - tall, 1),
            "across": left / np.maximum(width - wide, 1),
        }

    for name, found in told(ours).items():
        assert ks_2samp(found, told(theirs)[name]).pvalue > 0.01, name
    fell_back = [(boxes[:, 2] == height).mean() for boxes in (ours, theirs)]  # hardly ever drawn otherwise
    assert abs(fell_back[0] - fell_back[1]) < 4 * np.sqrt((fell_back[1] + 1 / n) / n)


@pytest.mark.parametrize("size", [(256, 5000), (5000, 256)])
def test_a_box_that_does_not_fit_in_ten_tries_is_torchvisions_fallback(size: tuple[int, int]) -> None:
    whole = replace(MLRC_V1.transforms, crop_area=(0.99, 1.0))
    found = v2.RandomResizedCrop(227, scale=(0.99, 1.0), ratio=(3 / 4, 4 / 3)).make_params([torch.empty(3, *size)])
    box = random_box(*size, whole, np.random.default_rng(0))
    assert box == (found["top"], found["left"], found["height"], found["width"])


def test_pure_red_reaches_bn_inception_as_minus_104_minus_117_plus_127() -> None:
    red = np.zeros((300, 400, 3), np.uint8)
    red[:, :, 0] = 255
    wanted = torch.tensor([-104.0, -117.0, 127.0])[:, None, None].expand(3, 227, 227)
    torch.testing.assert_close(MLRC.eval_tensor(red), wanted, rtol=0, atol=0)
    torch.testing.assert_close(MLRC.train_tensor(red, 5), wanted, rtol=0, atol=0)


def test_each_trunk_gets_its_range() -> None:
    image = torch.tensor([[[255, 0, 127]]], dtype=torch.uint8)
    assert to_input(image, EFFICIENTNET_LITE_INPUT).flatten().tolist() == [1.0, -127 / 128, 0.0]
    assert to_input(image, BN_INCEPTION_INPUT).flatten().tolist() == [127 - 104.0, -117.0, 127.0]


def test_gray_is_pillows_luma_on_all_colours() -> None:
    steps = np.arange(0, 256, 5, dtype=np.uint8)
    colours = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(52, -1, 3)
    gray = replace(LEVELS, channels="gray", mean=(0.0,), std=(1.0,))
    found = to_input(torch.from_numpy(colours), gray)
    np.testing.assert_array_equal(found[0].numpy(), np.asarray(Image.fromarray(colours).convert("L")))


@pytest.mark.parametrize("channels", ["gray", "RGB"])
def test_an_image_standardised_by_itself_has_mean_0_and_variance_1(channels: str) -> None:
    image = torch.from_numpy(_photo(32, 32))
    found = to_input(image, replace(CONV3_INPUT, channels=channels)).double()
    assert abs(found.mean()) < 1e-7
    assert abs(found.var(correction=0) - 1) < 1e-6


@pytest.mark.parametrize("level", [0, 1, 77, 255])
def test_a_constant_image_becomes_zeros_and_a_nearly_constant_one_stays_finite(level: int) -> None:
    image = torch.full((33, 31, 3), level, dtype=torch.uint8)
    assert (to_input(image, CONV3_INPUT) == 0).all()
    image[4, 4] = 254
    found = to_input(image, CONV3_INPUT)
    assert found.isfinite().all()
    assert abs(found.double().var(correction=0) - 1) < 1e-5


def test_a_flip_mirrors_the_crop_with_its_probability() -> None:
    image = _photo(40, 32)
    settings = replace(MINI_V1.transforms, flip_probability=1.0)
    whole = ImageTransforms(settings, LEVELS)
    torch.testing.assert_close(whole.train_tensor(image, 0), whole.eval_tensor(image).flip(2), rtol=0, atol=0)
    half = ImageTransforms(replace(settings, flip_probability=0.5), LEVELS)
    flipped = sum(not torch.equal(half.train_tensor(image, seed), half.eval_tensor(image)) for seed in range(400))
    assert 150 < flipped < 250


def _sources(tmp_path: Path) -> str:
    for number in range(8):
        path = tmp_path / f"class {number % 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(_photo(60 + number, 80, number)).save(path)
    return str(tmp_path)


def test_augmentation_does_not_depend_on_order_batch_or_global_state(tmp_path: Path) -> None:
    index = load_dataset(_sources(tmp_path))
    seeds = {(epoch, image): 1000 * epoch + image for epoch in range(2) for image in range(8)}

    def drawn(batch_size: int, shuffle_seed: int) -> dict[tuple[int, int], bytes]:
        images = ImageTensors(index, LITE_V1.transforms, LITE_V1.trunk.input)
        torch.manual_seed(shuffle_seed)
        np.random.seed(shuffle_seed)
        order = random.Random(shuffle_seed).sample(list(seeds), len(seeds))
        found = {}
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            out = images.train([image for _, image in batch], [seeds[sample] for sample in batch])
            found |= {sample: tensor.numpy().tobytes() for sample, tensor in zip(batch, out, strict=True)}
        return found

    first = drawn(batch_size=8, shuffle_seed=0)
    assert first == drawn(batch_size=2, shuffle_seed=1) == drawn(batch_size=5, shuffle_seed=2)
    assert len(set(first.values())) == 16  # no crop twice: not across images, not across epochs


class _Epochs(torch.utils.data.Dataset):
    """Two epochs of training tensors, as hashes, by the workers of a loader."""

    def __init__(self, images: ImageTensors) -> None:
        self.images = images

    def __len__(self) -> int:
        return 16

    def __getitem__(self, place: int) -> str:
        return sha256(self.images.train([place % 8], [1000 + place]).numpy().tobytes()).hexdigest()


@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes")
@pytest.mark.skipif(sys.platform == "win32", reason="workers by fork, which take no time to start")
def test_augmentation_does_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    index = load_dataset(_sources(tmp_path / "images"))
    prepare(index, 256, tmp_path / "x.pixels")
    shared = PixelCache(tmp_path / "x.pixels", index, 256)

    def drawn(workers: int, cache: PixelCache | None) -> Iterator[str]:
        images = ImageTensors(index, LITE_V1.transforms, LITE_V1.trunk.input, cache)
        context = "fork" if workers else None
        loader = DataLoader(_Epochs(images), batch_size=3, num_workers=workers, multiprocessing_context=context)
        return (text for batch in loader for text in batch)

    first = list(drawn(0, None))
    assert len(set(first)) == 16
    for workers, cache in ((0, shared), (2, None), (2, shared), (4, shared)):
        assert list(drawn(workers, cache)) == first


@pytest.fixture
def always_warned() -> Iterator[None]:
    """Torch tells a thing as often as it happens, not once a process."""
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


@pytest.mark.usefixtures("always_warned")
@pytest.mark.filterwarnings("error")  # torch warns of memory that it must not write
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("protocol", [MINI_V1, LITE_V1], ids=lambda protocol: protocol.name)
@pytest.mark.parametrize("limit_bytes", [0, 200_000, 2**30])
def test_caches_change_no_value(tmp_path: Path, monkeypatch, protocol, limit_bytes: int, cached: bool) -> None:
    index = load_dataset(_sources(tmp_path / "images"))
    direct = ImageTransforms(protocol.transforms, protocol.trunk.input)
    monkeypatch.setattr(tensors, "LIMIT_BYTES", limit_bytes)
    resize_px, path = protocol.transforms.resize_px, tmp_path / "x.pixels"
    cache = PixelCache(path, index, resize_px) if cached and prepare(index, resize_px, path) else None
    images = ImageTensors(index, protocol.transforms, protocol.trunk.input, cache)
    asked = [5, 0, 5, 7]
    for _ in range(2):
        evaluated, trained = images.eval(asked), images.train(np.array(asked), [1, 2, 3, 4])
        for place, image in enumerate(asked):
            assert torch.equal(evaluated[place], direct.eval_tensor(index.read(image)))
            assert torch.equal(trained[place], direct.train_tensor(index.read(image), place + 1))
    assert images.eval([]).shape == (0, *evaluated.shape[1:])


def test_a_batch_is_a_copy_that_training_may_change() -> None:
    images = ImageTensors(load_dataset("shapes:centred?train=2&test=2"), MINI_V1.transforms, MINI_V1.trunk.input)
    before = images.eval([3]).clone()
    images.train([3], [0]).zero_()
    assert torch.equal(images.eval([3]), before)


def test_opened_images_are_counted_for_each_job() -> None:
    index = load_dataset("shapes:centred?train=2&test=2")
    test = index.indices_of(index.test_classes)
    train = np.setdiff1d(np.arange(index.n_images), test)
    for protocol in (MINI_V1, LITE_V1):
        images = ImageTensors(index, protocol.transforms, protocol.trunk.input)
        images.eval(train)
        images.train(train[:2], [0, 1])
        assert images.times_opened(test).sum() == 0
        assert images.times_opened(train[:3]).tolist() == [2, 2, 1]
        images.eval(np.array([test[0], test[0], test[4]]))
        assert images.times_opened(test).tolist() == [2, 0, 0, 0, 1, *[0] * (len(test) - 5)]
        job = images.fresh()
        assert job.times_opened(np.arange(index.n_images)).sum() == 0
        job.train(test[4:5], [0])
        assert (job.times_opened(test).sum(), images.times_opened(test).sum()) == (1, 3)


def test_a_file_damaged_after_the_scan_is_named_in_mid_run(tmp_path: Path) -> None:
    index = load_dataset(_sources(tmp_path))
    path = tmp_path / index.files[2]
    path.write_bytes(path.read_bytes()[:200])
    for protocol in (MINI_V1, LITE_V1):
        images = ImageTensors(index, protocol.transforms, protocol.trunk.input)
        with pytest.raises(DataError, match=str(path)):
            images.train(np.arange(8), range(8))
        assert images.times_opened([2]).tolist() == [0]


def test_there_is_one_seed_for_each_image() -> None:
    images = ImageTensors(load_dataset("shapes:centred?train=2&test=2"), MINI_V1.transforms, MINI_V1.trunk.input)
    with pytest.raises(ValueError, match="3 images and 2 seeds"):
        images.train([0, 1, 2], [0, 1])


def test_a_kept_batch_of_32_takes_less_than_a_fifth_of_a_millisecond() -> None:
    images = ImageTensors(load_dataset("shapes:centred"), MINI_V1.transforms, MINI_V1.trunk.input)
    batch, seeds, seconds = np.arange(0, 960, 30), list(range(32)), []
    for _ in range(200):
        start = perf_counter()
        images.train(batch, seeds)
        seconds.append(perf_counter() - start)
    assert np.median(seconds) < 0.2e-3
