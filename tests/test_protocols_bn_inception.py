"""BN-Inception equals the published network in names, features and gradients; its weight file is found and checked."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from protocols.catalogue import LITE_V1, MLRC_V1
from protocols.errors import ProtocolError
from protocols.trunks import build_trunk, use_weight_file
from protocols.trunks.base import TrunkModule
from protocols.trunks.batchnorm import batchnorm_digest
from protocols.trunks.bn_inception import BNInception

RANDOM = replace(MLRC_V1.trunk, weights="random")
MEAN = torch.tensor(RANDOM.input.mean)[:, None, None]
VARIABLE = "MLRC_BN_INCEPTION_WEIGHTS"
FILE = "bn_inception-52deb4733.pth"


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def reference() -> nn.Module:
    """The network of `pretrainedmodels` in eval mode, every weight and statistic of it random."""
    package = find_spec("pretrainedmodels")
    if package is None:
        pytest.skip("pretrainedmodels is not installed")
    # Its one module: the package as a whole imports much that nobody needs.
    path = Path(package.submodule_search_locations[0]) / "models" / "bninception.py"
    found = spec_from_file_location("plain_bn_inception", path)
    module = module_from_spec(found)
    found.loader.exec_module(module)
    with torch.random.fork_rng():
        network = module.bninception(pretrained=None).eval()
        torch.manual_seed(0)
        for name, tensor in network.state_dict().items():
            if name.endswith("running_var"):
                tensor.uniform_(0.5, 2)
            elif name.endswith("_bn.weight"):
                tensor.uniform_(0.5, 1.5)
            elif tensor.dim() == 4:
                nn.init.kaiming_normal_(tensor)
            elif tensor.is_floating_point():
                tensor.normal_(std=0.1)
    return network


def plain(network: nn.Module, images: Tensor) -> Tensor:
    return network.features(images).mean((2, 3))


def ours(network: nn.Module, **values: str) -> TrunkModule:
    trunk = build_trunk(replace(RANDOM, **values), generator())
    trunk.load_state_dict({name: tensor for name, tensor in network.state_dict().items() if "last_linear" not in name})
    return trunk


def random_images(side_px: int) -> Tensor:
    return torch.rand(2, 3, side_px, side_px, generator=generator(1)) * 255 - MEAN


def natural_images(side_px: int) -> Tensor:
    """Smooth areas with edges, most of the energy in the low frequencies, and sensor noise."""
    coarse = torch.rand(2, 3, 9, 9, generator=generator(2))
    smooth = F.interpolate(coarse, size=(side_px, side_px), mode="bicubic").clamp(0, 1)
    edges = (F.interpolate(coarse[:, :1], size=(side_px, side_px), mode="bilinear") > 0.5) * 0.3
    noise = torch.randn(smooth.shape, generator=generator(3)) * 0.02
    return ((smooth + edges + noise).clamp(0, 1) * 255).round() - MEAN


def test_names_shapes_and_order_of_all_tensors_are_those_of_the_published_network(reference: nn.Module) -> None:
    theirs = {name: tensor.shape for name, tensor in reference.state_dict().items() if "last_linear" not in name}
    found = {name: tensor.shape for name, tensor in build_trunk(RANDOM, generator()).state_dict().items()}
    assert list(found.items()) == list(theirs.items())
    assert {layer.eps for layer in BNInception("average").modules() if isinstance(layer, nn.BatchNorm2d)} == {1e-5}


@pytest.mark.parametrize("images", [random_images, natural_images])
@pytest.mark.parametrize("side_px", [224, 227])
def test_features_equal_those_of_the_published_network(reference: nn.Module, images, side_px: int) -> None:
    trunk = ours(reference).train()  # frozen: training must not change it
    with torch.no_grad():
        exact = plain(copy.deepcopy(reference).double(), images(side_px).double())
        found, expected = trunk(images(side_px)), plain(reference, images(side_px))
        found_exactly = trunk.double()(images(side_px).double())
    scale = expected.abs().max()
    assert found.shape == (2, 1024)
    assert expected.std(dim=1).min() > 1  # not a comparison of zeros
    assert (found - expected).abs().max() < 1e-5 * scale
    assert (found_exactly - exact).abs().max() < 1e-12 * scale


def gradients(network: nn.Module, features: Tensor) -> dict[str, Tensor]:
    """Of a loss whose gradient differs from feature to feature and depends on all of them."""
    network.zero_grad()
    weights = torch.randn(features.shape, generator=generator(4), dtype=torch.float64).to(features)
    (F.normalize(features) * weights).sum().backward()
    return {name: item.grad for name, item in network.named_parameters() if item.grad is not None}


@pytest.mark.parametrize("batchnorm", ["frozen", "eval"])
def test_every_gradient_equals_that_of_the_plain_form_in_float64(reference: nn.Module, batchnorm: str) -> None:
    trunk, network = ours(reference, batchnorm=batchnorm).double().train(), copy.deepcopy(reference).double()
    images, theirs = random_images(64).double().requires_grad_(), random_images(64).double().requires_grad_()
    found, expected = gradients(trunk, trunk(images)), gradients(network, plain(network, theirs))
    affine = {name for name in expected if "_bn." in name}
    assert set(found) == set(expected) - (affine if batchnorm == "frozen" else set())
    assert len(affine) == 138
    for name, gradient in found.items():
        assert (gradient - expected[name]).abs().max() < 1e-9 * expected[name].abs().max(), name
    assert (images.grad - theirs.grad).abs().max() < 1e-9 * theirs.grad.abs().max()


def test_gradients_in_float32_are_as_close_to_float64_as_those_of_the_plain_form(reference: nn.Module) -> None:
    exact_network, trunk = copy.deepcopy(reference).double(), ours(reference, batchnorm="eval")
    images = random_images(64)
    exact = gradients(exact_network, plain(exact_network, images.double()))
    sides = gradients(trunk, trunk(images)), gradients(reference, plain(reference, images))
    total = torch.cat([gradient.flatten() for gradient in exact.values()]).norm()
    errors = [torch.cat([(side[name] - exact[name]).flatten() for name in exact]).norm() / total for side in sides]
    assert errors[0] < 2 * errors[1] + 1e-6


def test_folded_weights_never_go_stale(reference: nn.Module) -> None:
    trunk, images = ours(reference).eval(), random_images(64)
    with torch.inference_mode():
        before = trunk(images)
        trunk.inception_4a_pool_proj.weight.data.mul_(1.5)
        trunk.inception_4a_pool_proj_bn.running_mean.add_(0.5)
        after = trunk(images)
        network = copy.deepcopy(reference)
        network.load_state_dict(trunk.state_dict(), strict=False)
        expected = plain(network, images)
    assert (after - before).abs().max() > 1e-2 * expected.abs().max()
    assert (after - expected).abs().max() < 1e-5 * expected.abs().max()


def test_nothing_relies_on_relu_working_in_place(reference: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    trunk, images = ours(reference), random_images(64)
    kept = images.clone()
    expected = trunk(images)
    assert torch.equal(images, kept)
    monkeypatch.setattr(F, "relu", lambda maps, inplace=False: maps.clamp_min(0))
    assert torch.equal(trunk(images), expected)


def test_average_plus_max_pooling_is_the_sum_of_both(reference: nn.Module) -> None:
    images = random_images(64)
    maps = reference.features(images)
    found = ours(reference, pooling="average+max")(images)
    torch.testing.assert_close(found, maps.mean((2, 3)) + maps.amax((2, 3)), rtol=1e-4, atol=1e-3)


def test_exactly_the_sizes_at_which_the_published_network_fails_are_refused(reference: nn.Module) -> None:
    trunk = ours(reference)
    with torch.inference_mode():
        for side_px in (*range(28, 42), *range(60, 73)):
            images = torch.zeros(1, 3, 64, side_px)
            try:
                expected = plain(reference, images)
            except RuntimeError:
                with pytest.raises(ProtocolError, match=f"cannot take images of 64 x {side_px} px"):
                    trunk(images)
            else:
                torch.testing.assert_close(trunk(images), expected, rtol=1e-4, atol=1e-4)


def test_random_weights_come_from_the_generator_alone_and_let_a_signal_through() -> None:
    state = torch.get_rng_state()
    first, second, other = (build_trunk(RANDOM, generator(seed)) for seed in (7, 7, 8))
    assert torch.equal(torch.get_rng_state(), state)
    assert first.weights_hash == "random"
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name
    assert not torch.equal(first.conv1_7x7_s2.weight, other.conv1_7x7_s2.weight)
    features = first(random_images(64))
    assert 1 < features.std() < 1000  # inputs have a deviation of about 74


def through_train(trunk: TrunkModule) -> TrunkModule:
    return trunk.eval().train()


def through_reload(trunk: TrunkModule) -> TrunkModule:
    trunk.load_state_dict(copy.deepcopy(trunk.state_dict()))
    return trunk.train()


@pytest.mark.parametrize("batchnorm", ["frozen", "eval"])
@pytest.mark.parametrize("journey", [through_train, copy.deepcopy, through_reload])
def test_batchnorm_stays_frozen_on_every_journey(journey, batchnorm: str) -> None:
    trunk = journey(build_trunk(replace(RANDOM, batchnorm=batchnorm), generator())).train()
    statistics, everything = (batchnorm_digest(trunk, include_affine=affine) for affine in (False, True))
    parameters = [item for item in trunk.parameters() if item.requires_grad]
    optimiser = torch.optim.SGD(parameters, lr=1e-3)
    before = trunk.conv1_7x7_s2.weight.clone()
    F.normalize(trunk(random_images(64)))[:, :9].sum().backward()
    optimiser.step()
    assert not torch.equal(trunk.conv1_7x7_s2.weight, before)
    assert batchnorm_digest(trunk, include_affine=False) == statistics
    assert (batchnorm_digest(trunk, include_affine=True) == everything) == (batchnorm == "frozen")


@pytest.fixture(scope="module")
def weights(reference: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file in the published one's form: the format before PyTorch 1.6, a classifier, no counters of batches."""
    tensors = {name: tensor for name, tensor in reference.state_dict().items() if "num_batches" not in name}
    path = tmp_path_factory.mktemp("weights") / "other.pth"
    torch.save(tensors, path, _use_new_zipfile_serialization=False)
    return path


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty cache of PyTorch's hub, and no path in the variable."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch home"))
    monkeypatch.delenv(VARIABLE, raising=False)
    folder = tmp_path / "torch home" / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    return folder


def test_a_weight_file_named_by_a_derived_protocol_is_loaded_from_the_variable_or_the_cache(
    reference: nn.Module, weights: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = sha256(weights.read_bytes()).hexdigest()
    wanted = replace(RANDOM, weights=f"imagenet:{digest[:8]}")
    (cache / FILE).symlink_to(weights)
    from_cache = build_trunk(wanted, generator())
    (cache / FILE).unlink()
    monkeypatch.setenv(VARIABLE, str(weights))
    from_variable = build_trunk(wanted, generator())
    for trunk in (from_cache, from_variable):
        assert trunk.weights_hash == copy.deepcopy(trunk).weights_hash == digest
        for name, tensor in trunk.state_dict().items():
            assert torch.equal(tensor, reference.state_dict()[name]), name


def test_missing_weights_are_answered_with_both_places_and_the_address(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ProtocolError) as refused:
        build_trunk(MLRC_V1.trunk, generator())
    for part in (str(cache / FILE), f"{VARIABLE} is not set", f"http://data.lip6.fr/cadene/pretrainedmodels/{FILE}"):
        assert part in str(refused.value)
    assert "\n" not in str(refused.value)
    monkeypatch.setenv(VARIABLE, str(cache / "nowhere.pth"))
    with pytest.raises(ProtocolError, match=r"nowhere\.pth.*No such file"):
        build_trunk(MLRC_V1.trunk, generator())
    monkeypatch.setenv(VARIABLE, str(cache))
    with pytest.raises(ProtocolError, match="Is a directory"):
        build_trunk(MLRC_V1.trunk, generator())


def test_a_weight_file_given_by_path_is_read_from_there(
    weights: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = sha256(weights.read_bytes()).hexdigest()
    wanted = replace(RANDOM, weights=f"imagenet:{digest[:8]}")
    monkeypatch.setenv(VARIABLE, "nowhere.pth")  # so that the test leaves the variable as it was
    use_weight_file(wanted, weights)
    assert build_trunk(wanted, generator()).weights_hash == digest


def test_a_weight_file_is_refused_where_none_is_read_or_none_is_there(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match=r"bn-inception with weights 'random' reads no file; leave --weights out"):
        use_weight_file(RANDOM, tmp_path / "any.pth")
    with pytest.raises(ProtocolError, match=r"efficientnet-lite0 .* reads no file"):
        use_weight_file(LITE_V1.trunk, tmp_path / "any.pth")
    with pytest.raises(ProtocolError, match=rf"nowhere\.pth: no such file\. Download http://.*{FILE}"):
        use_weight_file(MLRC_V1.trunk, tmp_path / "nowhere.pth")


def test_another_weight_file_is_refused_with_both_hashes_and_is_not_passed_over(
    weights: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = sha256(weights.read_bytes()).hexdigest()
    (cache / FILE).write_bytes(weights.read_bytes())
    with pytest.raises(ProtocolError, match=rf"{digest[:8]}.*imagenet:52deb473.*--set trunk\.weights"):
        build_trunk(MLRC_V1.trunk, generator())
    (cache / "wrong.pth").write_bytes(b"<html>not found</html>")
    monkeypatch.setenv(VARIABLE, str(cache / "wrong.pth"))
    with pytest.raises(ProtocolError, match=r"wrong\.pth has SHA-256"):  # though the cache has what is wanted
        build_trunk(replace(RANDOM, weights=f"imagenet:{digest[:8]}"), generator())


@pytest.mark.parametrize("content", ["an incomplete network", "another network", "no network"])
def test_a_weight_file_that_does_not_fit_is_one_line(
    reference: nn.Module, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "saved.pth"
    if content == "no network":
        path.write_bytes(b"<html>not found</html>")
    else:
        tensors = reference.state_dict() if "incomplete" in content else nn.Linear(2, 2).state_dict()
        torch.save({name: tensor for name, tensor in tensors.items() if "4c_3x3" not in name}, path)
    monkeypatch.setenv(VARIABLE, str(path))
    digest = sha256(path.read_bytes()).hexdigest()
    with pytest.raises(ProtocolError, match="does not fit trunk bn-inception") as refused:
        build_trunk(replace(RANDOM, weights=f"imagenet:{digest[:8]}"), generator())
    assert "\n" not in str(refused.value)
