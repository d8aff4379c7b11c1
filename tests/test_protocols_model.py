"""The embedding model: its lengths, its random state, and what of it learns."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from protocols.catalogue import LITE_V1, MINI_V1
from protocols.model import build_model, normalised

LIPSCHITZ = replace(MINI_V1, embedding=replace(MINI_V1.embedding, normalisation="lipschitz"))
LITE_RANDOM = replace(LITE_V1, trunk=replace(LITE_V1.trunk, weights="random"))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(n: int = 4) -> torch.Tensor:
    return torch.randn(n, 1, 32, 32, generator=generator(1))


def test_l2_embeddings_are_v_over_its_length() -> None:
    model = build_model(MINI_V1, generator())
    raw = model.embedder(model.trunk(images()))
    embeddings = model(images())
    assert embeddings.shape == (4, 128)
    assert embeddings.dtype == torch.float32
    torch.testing.assert_close(embeddings, raw / raw.square().sum(1, keepdim=True).sqrt())


def test_lipschitz_shortens_long_vectors_and_leaves_short_ones_bit_equal() -> None:
    vectors = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    expected = torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])
    assert torch.equal(normalised(vectors, "lipschitz"), expected)
    model = build_model(LIPSCHITZ, generator())
    with torch.no_grad():
        model.embedder.weight.mul_(0.1)
        model.embedder.bias.mul_(0.1)
    raw = model.embedder(model.trunk(images()))
    assert raw.norm(dim=1).max() < 1
    assert torch.equal(model(images()), raw)


@pytest.mark.parametrize("rule", ["l2", "lipschitz"])
def test_the_zero_vector_has_a_finite_value_and_a_finite_gradient(rule) -> None:
    vectors = torch.zeros(2, 128, requires_grad=True)
    embeddings = normalised(vectors, rule)
    embeddings.sum().backward()
    assert torch.equal(embeddings, torch.zeros(2, 128))
    assert torch.isfinite(vectors.grad).all()


@pytest.mark.parametrize("protocol", [MINI_V1, LITE_RANDOM], ids=lambda protocol: protocol.name)
def test_the_same_generator_gives_the_same_bits_and_the_global_random_state_stays(protocol) -> None:
    state = torch.get_rng_state()
    first, second = (build_model(protocol, generator(5)).state_dict() for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    other = build_model(protocol, generator(6)).state_dict()
    assert not torch.equal(first["embedder.weight"], other["embedder.weight"])


def test_the_embedder_starts_from_the_bits_that_pytorch_draws_by_default() -> None:
    source = generator(5)
    model = build_model(MINI_V1, source)
    drawn = sum(parameter.numel() for parameter in model.trunk.parameters())
    state = torch.get_rng_state()
    torch.manual_seed(5)
    for layer in (nn.Conv2d(1, 16, 3), nn.Conv2d(16, 32, 3), nn.Conv2d(32, 64, 3)):
        drawn -= sum(parameter.numel() for parameter in layer.parameters())
    expected = nn.Linear(64, 128)
    torch.set_rng_state(state)
    assert drawn == 0
    assert torch.equal(model.embedder.weight, expected.weight)
    assert torch.equal(model.embedder.bias, expected.bias)


@pytest.mark.parametrize("mode", ["frozen", "eval"])
def test_frozen_batchnorm_leaves_its_weights_out_of_the_trainable_parameters(mode) -> None:
    protocol = replace(LITE_RANDOM, trunk=replace(LITE_RANDOM.trunk, batchnorm=mode))
    model = build_model(protocol, generator())
    norms = {id(p) for m in model.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()}
    trainable = {id(parameter) for parameter in model.trainable_parameters()}
    assert len(norms) == 2 * 49
    assert norms.isdisjoint(trainable) if mode == "frozen" else norms <= trainable
    assert len(trainable | norms) == len(list(model.parameters()))


def test_a_model_trains_and_reloads_to_the_same_embeddings() -> None:
    model = build_model(MINI_V1, generator())
    optimiser = torch.optim.Adam(model.trainable_parameters(), lr=3e-3, fused=True)
    before = model(images())
    before[:, 0].sum().backward()
    optimiser.step()
    after = model(images())
    assert not torch.equal(before, after)
    other = build_model(MINI_V1, generator(9))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(images()), after)


def test_random_lite_neither_dies_nor_explodes_through_its_frozen_layers() -> None:
    model = build_model(LITE_RANDOM, generator())
    probe = torch.rand(2, 3, 64, 64, generator=generator(1)) * 2 - 1
    features = model.trunk(probe)
    assert 0 < features.max() <= 6
    assert (features[0] - features[1]).abs().max() > 1e-3
