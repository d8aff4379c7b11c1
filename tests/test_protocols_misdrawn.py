"""Honest draws pass under any protocol; crops and flips that follow another rule are told, whatever part of it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from protocols import transforms as drawing
from protocols.catalogue import MLRC_V1
from protocols.draws import Draws, noted_in
from protocols.misdrawn import misdrawn
from protocols.spec import Transforms
from protocols.transforms import Box, ImageTransforms, random_box

PUBLISHED = MLRC_V1.transforms
CENTRE = replace(PUBLISHED, train_crop="centre")
# Odd ones: narrow ranges, ranges of one value, shapes of which no square image has room, and images of few pixels.
HONEST = [
    PUBLISHED,
    CENTRE,
    replace(CENTRE, resize_px=100, crop_px=99, flip_probability=0.0),
    replace(PUBLISHED, flip_probability=1.0),
    *(
        replace(PUBLISHED, resize_px=size, crop_px=8, crop_area=area, crop_aspect=aspect)
        for size in (8, 31, 256)
        for area in ((0.16, 1.0), (0.9, 1.0), (0.5, 0.5), (0.75, 0.75), (1.0, 1.0), (0.05, 0.1))
        for aspect in ((0.75, 4 / 3), (1.0, 1.0), (0.3, 0.4), (2.5, 3.0), (0.1, 10.0))
    ),
]


def judged(transforms: Transforms, seeds: range = range(200), by: Transforms | None = None) -> str | None:
    """What is said of draws under some transforms, by the rule of others."""
    draw, side = ImageTransforms(transforms, MLRC_V1.trunk.input).draw, transforms.resize_px
    return misdrawn([draw(side, side, seed) for seed in seeds], side, by or transforms)


@pytest.mark.parametrize("transforms", HONEST, ids=str)
def test_honest_draws_are_not_blamed(transforms: Transforms) -> None:
    for begin in range(0, 400, 200):
        assert judged(transforms, range(begin, begin + 200)) is None


@pytest.mark.parametrize(
    ("drawn", "words"),
    [
        (replace(PUBLISHED, flip_probability=0.0), "0 of 200 flipped where the probability is 0.5"),
        (replace(PUBLISHED, flip_probability=0.9), "flipped"),
        (replace(PUBLISHED, crop_area=(0.08, 1.0)), "areas"),
        (replace(PUBLISHED, crop_area=(0.5, 1.0)), "areas"),
        (replace(PUBLISHED, crop_area=(0.16, 0.5)), "areas"),
        (replace(PUBLISHED, crop_area=(1.0, 1.0)), "where 140 are expected"),
        (replace(PUBLISHED, crop_aspect=(1.0, 1.0)), "aspects"),
        (replace(PUBLISHED, crop_aspect=(0.5, 2.0)), "aspects"),
        (replace(PUBLISHED, crop_aspect=(0.75, 1.0)), "aspects"),
        (replace(PUBLISHED, train_crop="centre"), "area"),
    ],
)
def test_draws_by_another_rule_are_told(drawn: Transforms, words: str) -> None:
    assert words in str(judged(drawn, by=PUBLISHED))


def test_a_crop_beside_the_centre_is_told() -> None:
    assert "is not the centre" in str(judged(PUBLISHED, by=CENTRE))
    beside = [(Box(14, 15, 227, 227), False), (Box(14, 14, 227, 227), True)] * 100
    assert str(misdrawn(beside, 256, CENTRE)).startswith("Box(top=14, left=15")


@pytest.mark.parametrize(
    "broken",
    [
        lambda height, width, transforms, generator: Box(0, 0, height, width),
        lambda height, width, transforms, generator: Box(0, 0, height // 2, width // 2),
        lambda height, width, transforms, generator: random_box(
            height, width, replace(transforms, crop_aspect=(1.0, 1.0)), generator
        ),
    ],
    ids=["the whole image", "a quarter of it", "squares"],
)
def test_a_tally_tells_what_is_drawn_while_it_listens_and_no_more(
    monkeypatch: pytest.MonkeyPatch, broken: Callable[..., Box]
) -> None:
    images, tally = ImageTransforms(PUBLISHED, MLRC_V1.trunk.input), Draws()
    images.draw(64, 96, 0)
    monkeypatch.setattr(drawing, "random_box", broken)
    with noted_in(tally):
        drawn = [images.draw(64, 96, seed) for seed in range(20)]
    images.draw(64, 96, 0)
    areas, aspects = [box.height * box.width / 64 / 96 for box, _ in drawn], [box[3] / box[2] for box, _ in drawn]
    assert tally.told() == {
        **{"n_images": 20, "n_flipped": sum(flipped for _, flipped in drawn)},
        "area": np.round([min(areas), max(areas)], 4).tolist(),
        "aspect": np.round([min(aspects), max(aspects)], 4).tolist(),
    }
    assert 0 < tally.n_flipped < 20


def test_a_tally_of_nothing_has_no_ranges() -> None:
    assert Draws().told() == {"n_images": 0, "n_flipped": 0}
