"""The surfaces of the search benchmark have the optimum that they claim, and its searches go the project's way."""

from pathlib import Path

import numpy as np
import optuna
import pytest

PAGE = Path(__file__).parents[1] / "docs" / "search_quality.md"


@pytest.fixture(scope="module")
def quality():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent / "benchmarks"))
        import search_quality
    return search_quality


BEST = {
    "ridge": {"margin": 0.35, "scale": 10 ** (1.9 - 0.9 * 0.35)},
    "narrow": {"temperature": 10**-1.2, "w_lr": 10**-2.5},
    "plateau": {"pos_margin": 0.25, "neg_margin": 0.9},
    "faint": {"alpha": 20.0, "beta": 60.0, "base": 0.5},
    "five": {"w_lr": 1e-3, "la": 10**1.3, "gamma": 30.0, "reg_weight": 0.5, "margin": 0.2},
}


@pytest.mark.parametrize("name", BEST)
def test_no_point_of_a_surface_is_above_its_optimum(quality, name: str) -> None:
    surface, random = quality.SURFACES[name], np.random.default_rng(0)
    assert surface.truth(BEST[name]) == pytest.approx(surface.optimum)
    for _ in range(2000):
        point = {}
        for axis, distribution in surface.space.items():
            low, high = distribution.low, distribution.high
            share = random.uniform()
            point[axis] = low * (high / low) ** share if distribution.log else low + (high - low) * share
        truth = surface.truth(point)
        assert truth is None or 0 <= truth <= surface.optimum


def test_half_of_the_plateau_collapses(quality) -> None:
    values = np.linspace(-0.2, 2.0, 50)
    points = [quality.plateau({"pos_margin": one, "neg_margin": other}) for one in values for other in values]
    assert 0.5 <= np.mean([truth is None for truth in points]) <= 0.52


@pytest.mark.parametrize("sampler", ["gp", "tpe", "random"])
def test_a_search_is_the_same_each_time_and_starts_as_the_others_do(quality, sampler, monkeypatch) -> None:
    monkeypatch.setattr(quality, "BUDGETS", (10, 12))
    found = quality.regrets("ridge", sampler, seed=3)
    assert len(found) == 12
    assert found == quality.regrets("ridge", sampler, seed=3)
    assert found[:10] == quality.regrets("ridge", "random", seed=3)[:10]
    assert found != quality.regrets("ridge", sampler, seed=4)


def test_the_page_has_every_surface_with_every_sampler(quality) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for surface in quality.SURFACES.values():
        for name in quality.NAMES.values():
            assert f"| {surface.title} | {name} |" in text
    assert (PAGE.parent / "search_quality.png").is_file()
