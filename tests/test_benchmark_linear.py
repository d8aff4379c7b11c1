"""The linear metrics: closed forms where there are any, constraints, objectives and tiny problems solved by hand."""

from functools import partial

import numpy as np
import pytest
from sklearn.covariance import shrunk_covariance
from sklearn.decomposition import PCA
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from benchmark.methods.entry import MethodEntry
from benchmark.methods.linear import itml, lmnn, mmc, nca, whitened, within_class
from benchmark.methods.linear.base import (
    LinearMap,
    Reduction,
    differences,
    drawn_pairs,
    inverse_root,
    some_classes,
    within_class_scatter,
)
from benchmark.methods.registry import METHODS, build_method
from results.repeats import ONE_MODEL, ONE_RUN

LINEAR = {name: entry for name, entry in METHODS.items() if entry.family == "linear"}
VALUES = {
    "within-class": {"shrinkage": 0.01},
    "nca": {"scale": 3.0},
    "lmnn": {"n_neighbours": 3},
    "itml": {"gamma": 1.0, "n_constraints": 200},
    "mmc": {"shrinkage": 0.01},
}
N_CLASSES, PER_CLASS, DIM = 6, 15, 5
LABELS = np.repeat(np.arange(N_CLASSES), PER_CLASS)


def blobs(seed: int = 0, dim: int = DIM) -> np.ndarray:
    """Classes that differ in two directions, with noise that is larger in the others; root mean square length 1."""
    random = np.random.default_rng(seed)
    noise = random.normal(size=(len(LABELS), dim)) * np.linspace(0.5, 8.0, dim)
    centres = random.normal(size=(N_CLASSES, dim)) * (np.arange(dim) < 2) * 2
    features = centres[LABELS] + noise
    return features / np.sqrt(np.square(features).sum(axis=1).mean())


def fitted(name: str, features: np.ndarray, seed: int = 0) -> LinearMap:
    module = build_method(METHODS[name], N_CLASSES, 128, VALUES.get(name, {}))
    return module.fit(features, LABELS, np.random.default_rng(seed))


def hits(features: np.ndarray) -> float:
    """Share of images whose nearest neighbour is of their class."""
    distances = lmnn.squared_distances(features, features)
    np.fill_diagonal(distances, np.inf)
    return float((LABELS[distances.argmin(axis=1)] == LABELS).mean())


@pytest.mark.parametrize("entry", LINEAR.values(), ids=LINEAR)
def test_a_map_is_finite_has_a_positive_semidefinite_metric_and_depends_on_its_stream_alone(
    entry: MethodEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mmc, "MOST_PAIRS", 500)
    first, again, other = (fitted(entry.name, blobs(), seed) for seed in (0, 0, 1))
    assert first.matrix.shape == (DIM, DIM)
    assert np.isfinite(first.matrix).all()
    assert np.linalg.eigvalsh(first.matrix.T @ first.matrix).min() >= -1e-12
    assert np.array_equal(first.matrix, again.matrix)
    assert first.summary == again.summary
    # A method draws nothing (where it sees all images), or is run as often as any other.
    assert np.array_equal(first.matrix, other.matrix) == (entry.name in ONE_RUN), entry.name


def test_only_methods_that_exist_have_one_run_or_one_model() -> None:
    assert set(METHODS) >= ONE_RUN >= ONE_MODEL
    assert {METHODS[name].family for name in ONE_MODEL} == {"baseline"}


@pytest.mark.parametrize("name", sorted(set(LINEAR) - {"euclidean"}))
def test_a_metric_finds_more_neighbours_of_the_class_than_the_distance_it_began_with(name: str) -> None:
    features = blobs()
    assert hits(features @ fitted(name, features).matrix.T) > hits(features) + 0.03


@pytest.mark.parametrize("n_images", [40, 12])
def test_the_reduction_is_pca_with_one_scale_and_drops_directions_without_variance(n_images: int) -> None:
    random = np.random.default_rng(1)
    features = (random.normal(size=(n_images, 4)) @ random.normal(size=(4, 20)) + 7).astype(np.float32)
    reduction = Reduction.fitted(features, 10)
    reduced = reduction(features)
    assert reduced.shape == (n_images, 4)
    assert np.mean(np.square(reduced).sum(axis=1)) == pytest.approx(1.0)
    plain = PCA(4).fit_transform(features.astype(np.float64))
    assert np.abs(reduced) == pytest.approx(np.abs(plain) * reduction.scale, abs=1e-6)


def test_whitened_features_have_unit_covariance() -> None:
    features = blobs()
    mapped = features @ whitened.fit(features, LABELS, None).matrix.T
    assert np.cov(mapped.T, bias=True) == pytest.approx(np.eye(DIM), abs=1e-9)


def test_within_class_whitening_is_the_inverse_of_the_scatter_about_class_means() -> None:
    features = blobs()
    scatter = np.zeros((DIM, DIM))
    for x, label in zip(features, LABELS, strict=True):
        away = x - features[label == LABELS].mean(axis=0)
        scatter += np.outer(away, away) / len(LABELS)
    assert within_class_scatter(features, LABELS) == pytest.approx(scatter)
    matrix = within_class.fit(features, LABELS, None, shrinkage=0.2).matrix
    wanted = np.linalg.inv(0.8 * scatter + 0.2 * np.trace(scatter) / DIM * np.eye(DIM))
    assert matrix.T @ matrix == pytest.approx(wanted)


def test_full_shrinkage_leaves_the_euclidean_distance_up_to_a_factor() -> None:
    matrix = within_class.fit(blobs(), LABELS, None, shrinkage=1.0).matrix
    assert matrix / matrix[0, 0] == pytest.approx(np.eye(DIM))


def test_nca_is_scikit_learns() -> None:
    features = blobs()
    plain = NeighborhoodComponentsAnalysis(init=2.0 * np.eye(DIM), max_iter=nca.MOST_STEPS).fit(features, LABELS)
    assert np.array_equal(nca.fit(features, LABELS, None, scale=2.0).matrix, plain.components_)


def lmnn_loss(matrix: np.ndarray, features: np.ndarray, k: int) -> float:
    """The loss as a loop over images, target neighbours and impostors."""
    total, mapped = 0.0, features @ matrix.T
    for i in range(len(features)):
        own = [j for j in range(len(features)) if j != i and LABELS[j] == LABELS[i]]
        own.sort(key=lambda j: np.sum((features[i] - features[j]) ** 2))
        for j in own[:k]:
            near = np.sum((mapped[i] - mapped[j]) ** 2)
            total += (1 - lmnn.MU) * near
            for other in np.flatnonzero(LABELS[i] != LABELS):
                total += lmnn.MU * max(0.0, 1 + near - np.sum((mapped[i] - mapped[other]) ** 2))
    return total / len(features)


@pytest.mark.parametrize("chunk", [7, 1000])
def test_the_lmnn_objective_equals_a_loop_and_its_gradient_a_difference(chunk: int, monkeypatch) -> None:
    monkeypatch.setattr(lmnn, "CHUNK", chunk)
    features = blobs()
    matrix = np.random.default_rng(2).normal(size=(DIM, DIM)) / 3
    problem = partial(
        lmnn.objective, features=features, labels=LABELS, targets=lmnn.target_neighbours(features, LABELS, 3)
    )
    value, gradient = problem(matrix)
    assert value == pytest.approx(lmnn_loss(matrix, features, 3))
    direction = np.random.default_rng(3).normal(size=(DIM, DIM))
    slope = (problem(matrix + 1e-8 * direction)[0] - problem(matrix - 1e-8 * direction)[0]) / 2e-8  # no hinge so near
    assert (gradient * direction).sum() == pytest.approx(slope, rel=1e-4)


def test_lmnn_ends_below_where_it_began_and_stops_pulling_a_class_without_neighbours() -> None:
    labels = np.append(LABELS, N_CLASSES)  # one image of a class of its own
    features = np.vstack([blobs(), np.zeros(DIM)])
    targets = lmnn.target_neighbours(features, labels, 20)
    assert (targets[-1] == -1).all()
    assert (targets[0] >= 0).sum() == PER_CLASS - 1
    found = lmnn.fit(features, labels, None, n_neighbours=20)
    assert found.summary["after"] < 0.8 * found.summary["before"]


def test_lmnn_in_one_dimension_widens_until_the_impostors_are_a_margin_away() -> None:
    """Classes {0, 0} and {1, 1}: nothing is pulled, and the hinge [1 - l^2]+ is gone from l = 1 on."""
    features, labels = np.array([[0.0], [0.0], [0.5], [0.5]]), np.array([0, 0, 1, 1])
    found = lmnn.fit(features, labels, None, n_neighbours=1)
    assert abs(found.matrix[0, 0]) * 0.5 >= 1 - 1e-6
    assert (found.summary["before"], found.summary["after"]) == (
        pytest.approx(0.5 * 2 * 0.75),
        pytest.approx(0, abs=1e-9),
    )


def test_itml_on_one_constraint_without_slack_lands_on_its_bound() -> None:
    metric, bounds, _ = itml.projected(np.array([[2.0, 0.0]]), np.array([1.0]), np.array([1.0]), np.inf)
    assert metric == pytest.approx(np.diag([0.25, 1.0]))
    assert bounds == pytest.approx([1.0])


@pytest.mark.parametrize(("sign", "bound"), [(1.0, 1.0), (-1.0, 9.0)])
def test_itml_with_slack_gives_way_by_the_closed_form(sign: float, bound: float) -> None:
    """1/p' = 1/p + g/(g+1) (1/xi - 1/p) where M and the bound meet; p = 4 in the direction of the pair."""
    gamma = 3.0
    metric, bounds, _ = itml.projected(np.array([[2.0, 0.0]]), np.array([sign]), np.array([bound]), gamma)
    met = 1 / (1 / 4 + gamma / (gamma + 1) * (1 / bound - 1 / 4))
    assert 4 * metric[0, 0] == pytest.approx(met)
    assert bounds == pytest.approx([met])
    assert metric[1, 1] == 1.0


def test_itml_leaves_a_metric_that_keeps_every_constraint_as_it_is() -> None:
    metric, _, sweeps = itml.projected(np.eye(3), np.array([1.0, -1.0, 1.0]), np.array([2.0, 0.5, 1.0]), 1.0)
    assert np.array_equal(metric, np.eye(3))
    assert sweeps == 1


def test_itml_keeps_all_constraints_when_slack_is_dear_and_they_can_be_kept(monkeypatch) -> None:
    monkeypatch.setattr(itml, "MOST_SWEEPS", 2000)
    monkeypatch.setattr(itml, "TOLERANCE", 1e-9)
    random = np.random.default_rng(4)
    apart, truth = random.normal(size=(30, 4)), np.diag([4.0, 1.0, 0.5, 0.1])
    lengths = np.einsum("pi,ij,pj->p", apart, truth, apart)
    signs = np.where(np.arange(30) % 2, 1.0, -1.0)
    metric, bounds, _ = itml.projected(apart, signs, lengths * (1 + 0.2 * signs), np.inf)
    found = np.einsum("pi,ij,pj->p", apart, metric, apart)
    assert (signs * (found - bounds) <= 1e-5 * bounds).all()
    assert np.array_equal(bounds, lengths * (1 + 0.2 * signs))
    assert np.linalg.eigvalsh(metric).min() > 0


def test_dearer_slack_is_used_less_and_is_reported() -> None:
    features = blobs()
    cheap, dear = (
        itml.fit(features, LABELS, np.random.default_rng(0), gamma=gamma, n_constraints=40).summary
        for gamma in (0.1, 100.0)
    )
    assert 0 < dear["most_slack"] < cheap["most_slack"]
    assert dear["log_det_divergence"] > cheap["log_det_divergence"] > 0


def test_itml_passes_over_copies_of_an_image() -> None:
    features = np.repeat(blobs()[::3], 3, axis=0)  # in threes
    assert np.isfinite(fitted("itml", features).matrix).all()


def test_mmc_along_two_axes_is_the_closed_form() -> None:
    """max a sqrt(m1) + b sqrt(m2) with s1 m1 + s2 m2 = 1 has m_i proportional to (a_i / s_i)^2."""
    sides, scatter = np.array([3.0, 1.0]), np.array([2.0, 0.5])
    matrix, _ = mmc.widest(np.diag(sides / np.sqrt(scatter)))
    metric = np.diag(matrix.T @ matrix) / scatter
    assert metric / metric[1] == pytest.approx((sides / scatter) ** 2 / (sides / scatter)[1] ** 2, rel=1e-3)


def test_each_step_of_mmc_widens_the_dissimilar_pairs(monkeypatch) -> None:
    apart, reached = np.random.default_rng(5).normal(size=(60, 4)) * [1, 2, 3, 4], []
    for n_steps in range(1, 30):
        monkeypatch.setattr(mmc, "MOST_STEPS", n_steps)
        matrix, _ = mmc.widest(apart)
        assert np.linalg.norm(matrix) == pytest.approx(1.0)
        reached.append(np.linalg.norm(apart @ matrix.T, axis=1).sum())
    assert (np.diff(reached) >= -1e-9).all()
    assert reached[-1] > 1.02 * reached[0]


def test_mmc_meets_its_constraint_and_beats_other_metrics_that_meet_it() -> None:
    features = blobs()
    found = fitted("mmc", features)
    apart = differences(features, drawn_pairs(LABELS, mmc.MOST_PAIRS, False, np.random.default_rng(0)))
    assert np.linalg.norm(apart @ found.matrix.T, axis=1).sum() == pytest.approx(1.0)
    scatter = shrunk_covariance(mmc.similar_scatter(features, LABELS), 0.01)

    def cost(matrix: np.ndarray) -> float:
        matrix = matrix / np.linalg.norm(apart @ matrix.T, axis=1).sum()
        return float(np.trace(matrix @ scatter @ matrix.T))

    assert cost(found.matrix) == pytest.approx(found.summary["objective"])
    random = np.random.default_rng(6)
    others = [np.eye(DIM), inverse_root(scatter), *(random.normal(size=(DIM, DIM)) for _ in range(20))]
    others += [found.matrix @ (np.eye(DIM) + 0.02 * random.normal(size=(DIM, DIM))) for _ in range(20)]
    assert all(found.summary["objective"] <= cost(other) * (1 + 1e-6) for other in others)


def test_the_similar_scatter_is_the_sum_over_pairs() -> None:
    features = blobs()
    pairs = differences(features, drawn_pairs(LABELS, 10**6, True, np.random.default_rng(0)))
    assert len(pairs) == N_CLASSES * PER_CLASS * (PER_CLASS - 1) // 2
    assert mmc.similar_scatter(features, LABELS) == pytest.approx(pairs.T @ pairs)


@pytest.mark.parametrize("same_class", [True, False])
def test_drawn_pairs_are_distinct_of_the_kind_asked_and_repeat_with_the_stream(same_class: bool) -> None:
    one, again, other = (drawn_pairs(LABELS, 50, same_class, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert len({tuple(pair) for pair in one.tolist()}) == 50
    assert (one[:, 0] < one[:, 1]).all()
    assert ((LABELS[one[:, 0]] == LABELS[one[:, 1]]) == same_class).all()


def test_of_a_large_fold_whole_classes_are_drawn() -> None:
    chosen = some_classes(LABELS, np.random.default_rng(0), most=50)
    kept = np.unique(LABELS[chosen])
    assert (len(kept), chosen.sum()) == (3, 45)
    assert np.array_equal(chosen, np.isin(LABELS, kept))
    assert not np.array_equal(chosen, some_classes(LABELS, np.random.default_rng(1), most=50))
    assert some_classes(LABELS, np.random.default_rng(0)).all()
