"""The linear metrics reach the published figures on the centred striped shapes; all ten seeds: tests/anchors/."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "anchors" / "linear_shapes.py"


@pytest.fixture(scope="module")
def anchors():
    spec = spec_from_file_location("linear_shapes", SCRIPT)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_recall_at_1_on_unseen_shapes_lies_in_the_published_range(anchors) -> None:
    found = anchors.recall_at_1(seed=0)
    assert not anchors.outside({name: [value] for name, value in found.items()}), found


def test_a_figure_outside_the_range_is_named(anchors) -> None:
    found = {name: [low, high] for name, (low, high) in anchors.PUBLISHED.items()}
    assert anchors.outside(found) == []
    assert anchors.outside({**found, "nca": [0.95, 0.88]}) == ["nca"]
