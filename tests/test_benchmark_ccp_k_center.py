"""Greedy k-center against a plain loop and against every other choice; covering radius and spread from their words."""

from itertools import combinations

import numpy as np
import pytest
import torch

from benchmark.methods.k_center import covering_radii, greedy_k_center, spread


def random_points(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(9)


def by_loop(points: np.ndarray, k: int, centres: np.ndarray) -> list[int]:
    """Of one class: the indices that greedy takes when `centres` cover already."""
    chosen, known = [], list(centres)
    for _ in range(k):
        away = [min(np.linalg.norm(point - centre) for centre in known) for point in points]
        chosen.append(int(np.argmax(away)))
        known.append(points[chosen[-1]])
    return chosen


def radius(points: np.ndarray, centres: np.ndarray) -> float:
    return max(min(np.linalg.norm(point - centre) for centre in centres) for point in points)


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_what_a_plain_loop_takes(seed) -> None:
    points, centres = random_points(4, 11, 3, seed=seed), random_points(4, 2, 3, seed=seed + 100)
    found = greedy_k_center(points, 6, centres, generator())
    expected = [by_loop(some.numpy(), 6, known.numpy()) for some, known in zip(points, centres, strict=True)]
    assert found.tolist() == expected


def test_without_centres_the_first_is_drawn_and_the_others_follow_from_it() -> None:
    points = random_points(50, 9, 3)
    found = greedy_k_center(points, 4, None, generator())
    for some, chosen in zip(points, found, strict=True):
        assert by_loop(some.numpy(), 3, some[chosen[:1]].numpy()) == chosen[1:].tolist()
    assert set(found[:, 0].tolist()) == set(range(9))
    assert torch.equal(found, greedy_k_center(points, 4, None, generator()))


@pytest.mark.parametrize("n_before", [0, 1, 3])
def test_the_radius_is_at_most_twice_that_of_the_best_choice(n_before) -> None:
    worst = 0.0
    for seed in range(12):
        points, before = random_points(1, 9, 2, seed=seed), random_points(1, n_before, 2, seed=seed + 100)
        found = greedy_k_center(points, 3, before if n_before else None, generator())[0]
        cloud, known = points[0].numpy(), before[0].numpy()
        greedy = radius(cloud, np.concatenate([known, cloud[found.numpy()]]))
        best = min(radius(cloud, np.concatenate([known, cloud[list(some)]])) for some in combinations(range(9), 3))
        worst = max(worst, greedy / best)
    assert 1.0 < worst <= 2.0  # greedy is not the best everywhere, or this would test nothing


def test_no_point_is_taken_twice_while_another_is_left() -> None:
    points = random_points(6, 7, 3)
    points[:, 4:] = points[:, 1:4]  # four different points, three of them twice
    found = greedy_k_center(points, 4, None, generator())
    taken = points.take_along_dim(found[:, :, None], dim=1)
    assert all(len(torch.unique(some, dim=0)) == 4 for some in taken)
    assert greedy_k_center(points, 9, None, generator()).shape == (6, 9)


def test_a_class_of_one_image_gives_that_image_again_and_again() -> None:
    points = random_points(3, 1, 4).expand(3, 5, 4)
    found = greedy_k_center(points, 3, None, generator())
    assert torch.equal(points.take_along_dim(found[:, :, None], dim=1), points[:, :3])


def test_covering_radii_and_spread_equal_loops_over_their_definitions() -> None:
    points, centres = random_points(3, 10, 4), random_points(3, 5, 4, seed=1)
    expected = [
        [radius(some.numpy(), known[: k + 1].numpy()) for k in range(5)]
        for some, known in zip(points, centres, strict=True)
    ]
    torch.testing.assert_close(covering_radii(points, centres), torch.tensor(expected, dtype=torch.float64))
    apart = [np.linalg.norm(a - b) for known in centres.numpy() for a, b in combinations(known, 2)]
    assert spread(centres).item() == pytest.approx(np.mean(apart))


def test_distances_hold_far_from_the_origin_where_squares_would_cancel() -> None:
    points, centres = 1000 + random_points(3, 40, 8).float(), 1000 + random_points(3, 30, 8, seed=1).float()
    expected = covering_radii(points.double(), centres.double())
    torch.testing.assert_close(covering_radii(points, centres).double(), expected, rtol=1e-4, atol=0)
    assert covering_radii(points, points)[:, -1].tolist() == [0.0, 0.0, 0.0]
