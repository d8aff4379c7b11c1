"""Every batch has exactly the planned classes and images, and nothing is seen twice before all is seen once."""

import json
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.errors import ProtocolError
from protocols.sampler import BatchPlan, BatchSampler, batch_plan
from protocols.spec import Batch

MLRC_BATCH = Batch(size=32, pair_samples_per_class=4, class_samples_per_class=1)


def data_set(*sizes: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Image indices by class, shuffled over the data set, and the class of each image."""
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    return [np.flatnonzero(labels == number) for number in range(len(sizes))], labels


@pytest.mark.parametrize(
    ("family", "n_classes", "counts"),
    [
        ("pair", 100, (4,) * 8),
        ("pair", 8, (4,) * 8),
        ("pair", 5, (7, 7, 6, 6, 6)),
        ("pair", 2, (16, 16)),
        ("class", 100, (1,) * 32),
        ("class", 20, (2,) * 12 + (1,) * 8),
        ("class", 3, (11, 11, 10)),
    ],
)
def test_a_plan_has_the_protocols_classes_or_all_of_them_evenly(family, n_classes, counts):
    assert batch_plan(MLRC_BATCH, family, n_classes).counts == counts


@pytest.mark.parametrize(
    ("batch", "n_classes", "message"),
    [
        (MLRC_BATCH, 1, r"32 images, 4 of a class, from 1 training classes .* 1 class; at least 2"),
        (Batch(size=4, pair_samples_per_class=4, class_samples_per_class=1), 9, r"4 images, 4 of a class, from 9"),
        (Batch(size=30, pair_samples_per_class=4, class_samples_per_class=1), 9, r"size 30 .* 4 .* such as 28"),
    ],
)
def test_a_plan_that_cannot_hold_is_refused_with_its_numbers(batch, n_classes, message):
    with pytest.raises(ProtocolError, match=message):
        batch_plan(batch, "pair", n_classes)


def test_more_classes_in_a_batch_than_there_are_is_refused_before_the_first_batch():
    images, _ = data_set(5, 5, 5)
    with pytest.raises(ProtocolError, match="a batch of 8 classes from 3"):
        BatchSampler(images, BatchPlan((4,) * 8), seed=0)


def test_a_class_without_images_is_refused_by_its_number():
    with pytest.raises(ProtocolError, match="1 classes without images, first class 1"):
        BatchSampler([np.array([0]), np.array([], dtype=np.int64)], BatchPlan((1, 1)), seed=0)


def test_small_classes_repeat_as_evenly_as_possible():
    images, labels = data_set(1, 2, 3, 9)
    sampler = BatchSampler(images, BatchPlan((4, 4)), seed=0)
    for _ in range(200):
        batch = sampler.next()
        assert batch.dtype == np.int64
        assert batch.shape == (8,)
        for part in (batch[:4], batch[4:]):
            (number,) = set(labels[part].tolist())
            times = Counter(part.tolist())
            assert len(times) == min(4, len(images[number]))
            assert max(times.values()) - min(times.values()) <= 1
        assert len(set(labels[batch].tolist())) == 2


@given(
    sizes=st.lists(st.integers(1, 7), min_size=2, max_size=9),
    counts=st.lists(st.integers(1, 9), min_size=2, max_size=9),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_batch_is_exact_and_every_class_and_image_is_seen_in_turn(sizes, counts, seed):
    counts = counts[: len(sizes)]
    images, labels = data_set(*sizes)
    sampler = BatchSampler(images, BatchPlan(tuple(counts)), seed)
    classes_drawn = []
    images_drawn = [[] for _ in sizes]
    for _ in range(25):
        parts = np.split(sampler.next(), np.cumsum(counts)[:-1])
        numbers = [int(labels[part[0]]) for part in parts]
        assert len(set(numbers)) == len(counts)
        for part, number, count in zip(parts, numbers, counts, strict=True):
            assert labels[part].tolist() == [number] * count
            images_drawn[number] += part.tolist()
            times = Counter(part.tolist())
            assert len(times) == min(count, sizes[number])
            assert max(times.values()) - min(times.values()) <= 1
        classes_drawn += numbers
    assert_seen_in_turn(classes_drawn, len(sizes))
    for drawn, size in zip(images_drawn, sizes, strict=True):
        assert_seen_in_turn(drawn, size)


def assert_seen_in_turn(drawn: list[int], n_things: int) -> None:
    """Cut the draws into rounds of `n_things`: none holds a thing twice, so each whole round holds every thing once."""
    for start in range(0, len(drawn), n_things):
        part = drawn[start : start + n_things]
        assert len(set(part)) == len(part)


def test_the_seed_decides_the_batches():
    images, _ = data_set(*[7] * 10)
    streams = [BatchSampler(images, BatchPlan((2,) * 4), seed) for seed in (1, 1, 2)]
    first, again, other = [np.stack([sampler.next() for _ in range(30)]) for sampler in streams]
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_all_pairs_of_classes_meet():
    images, labels = data_set(*[3] * 7)
    sampler = BatchSampler(images, BatchPlan((1, 1, 1)), seed=0)
    met = Counter()
    for _ in range(700):
        first, second, third = sorted(labels[sampler.next()].tolist())
        met.update([(first, second), (first, third), (second, third)])
    assert len(met) == 21
    assert min(met.values()) > 50  # 100 each on average


def test_coverage_counts_distinct_images_and_classes():
    images, _ = data_set(*[4] * 6)
    sampler = BatchSampler(images, BatchPlan((2, 2)), seed=0)
    drawn = [sampler.next() for _ in range(2)]
    coverage = sampler.coverage()
    assert (coverage.n_batches, coverage.n_images, coverage.n_classes) == (2, len(np.unique(drawn)), 4)
    assert (coverage.of_images, coverage.of_classes) == (24, 6)
    for n_more in (4, 1):  # six batches of 4 are all 24 images; a seventh shows none that is new
        for _ in range(n_more):
            sampler.next()
        assert (sampler.coverage().n_images, sampler.coverage().n_classes) == (24, 6)


def test_a_sampler_goes_on_from_its_state_through_a_json_file():
    images, _ = data_set(1, 2, 3, 9, 20)
    plan = BatchPlan((4, 4, 4))
    sampler, resumed = BatchSampler(images, plan, seed=3), BatchSampler(images, plan, seed=99)
    for _ in range(3):
        sampler.next()
    for _ in range(50):
        resumed.next()
    resumed.load_state_dict(json.loads(json.dumps(sampler.state_dict())))
    assert resumed.coverage() == sampler.coverage()
    assert all(np.array_equal(resumed.next(), sampler.next()) for _ in range(40))


@pytest.mark.parametrize(("n_classes", "size", "most_ms"), [(100, 60, 0.5), (11_318, 5, 0.5)])
def test_a_batch_costs_next_to_nothing(n_classes, size, most_ms):
    images, _ = data_set(*[size] * n_classes)
    sampler = BatchSampler(images, batch_plan(MLRC_BATCH, "class", n_classes), seed=0)
    start = time.process_time()
    for _ in range(1000):
        sampler.next()
    assert time.process_time() - start < most_ms  # 1000 batches: seconds are milliseconds a batch
