"""The figures of test embeddings: the radius is that of its definition, and no thumbnail covers another."""

from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch
from figure_records import drawn, fold, identity, lines, texts
from matplotlib.backends.backend_agg import FigureCanvasAgg

from benchmark.methods.k_center import covering_radii, greedy_k_center
from reports import style
from reports.analyses.covering_radius import covering_radius, greedy_radii
from reports.analyses.embedded import Embedded
from reports.analyses.embedding_map import MOST_THUMBNAILS, THUMBNAIL, embedding_map, plane
from reports.errors import ReportError
from results.record import FoldRecord, Identity


class Pictures:
    """Test images: plain colours, wide or high."""

    def __init__(self, classes: list[str]) -> None:
        self.classes = tuple(classes)
        self.files = tuple(f"{name}/{number}.png" for number, name in enumerate(classes))

    def read(self, image: int) -> np.ndarray:
        return np.full((60, 30, 3) if image % 2 else (30, 60, 3), 3 * image % 256, np.uint8)


def embedded(classes: list[str], records: list[FoldRecord], load: Callable[[str], Any]) -> Embedded:
    return Embedded(records, {record.identity.comparison: Pictures(classes) for record in records}, load)


def test_the_greedy_radius_is_that_of_the_methods_and_of_the_definition() -> None:
    random = np.random.default_rng(0)
    for n in (1, 2, 7, 20):
        some = random.normal(size=(n, 4)).astype(np.float32)
        found = greedy_radii(some, n + 2)
        far = [[float(np.linalg.norm(a.astype(float) - b.astype(float))) for b in some] for a in some]
        assert found[0] == pytest.approx(min(map(max, far)), abs=1e-6)  # the best single centre
        first = torch.from_numpy(some[[int(np.argmin([max(row) for row in far]))]])[None]
        stacked = torch.from_numpy(some)[None]
        rest = greedy_k_center(stacked, n + 1, first, torch.Generator())
        centres = torch.cat([first, stacked[:, rest[0]]], dim=1)
        assert found == pytest.approx(covering_radii(stacked, centres)[0].tolist(), abs=1e-6)
        assert found[n - 1] == pytest.approx(0.0, abs=1e-6)


def test_the_covering_radius_is_a_mean_over_classes_folds_and_then_runs() -> None:
    classes = ["a", "a", "a", "b", "b"]
    row = np.array([[0.0], [1.0], [4.0], [0.0], [2.0]])  # radii 3, 1, 0 and 2, 0, 0 for k = 1, 2, 3
    records = [fold(identity("final", run), number, 0.3) for run in (1, 2) for number in (0, 1)]
    records.append(fold(identity("final", 3), 0, 0.3))  # a run that lacks a fold model
    scale = {record.id: 1.0 + record.fold + record.identity.run for record in records}
    (drawing,) = covering_radius(embedded(classes, records, lambda job: scale[job] * row)).drawings
    found = lines(drawing)
    assert [line["k"] for line in found] == ["1", "2", "3"]
    # Scales 2, 3 in run 1 and 3, 4 in run 2: means 2.5 and 3.5.
    assert [float(line["mean"]) for line in found] == pytest.approx([3.0 * 2.5, 3.0 * 0.5, 0.0])
    assert float(found[0]["ci95_half_width"]) == pytest.approx(12.7062 * 0.5 * 2.5, rel=1e-4)
    assert {line["n_runs"] for line in found} == {"2"}
    assert "ccp-contrastive" in texts(drawn(drawing))


def test_several_methods_share_the_picture_of_the_covering_radius() -> None:
    of = [identity("final", 1, "a"), identity("final", 1, "b", margin=0.2)]
    of.append(identity("final", 1, "b", margin=0.5))
    records = [fold(one, number, 0.3) for one in of for number in (0, 1)]
    random = np.random.default_rng(0)
    (drawing,) = covering_radius(embedded(["x"] * 4, records, lambda job: random.normal(size=(4, 3)))).drawings
    found = lines(drawing)
    assert list(dict.fromkeys(line["method"] for line in found)) == ["a", "b (margin=0.2)", "b (margin=0.5)"]


def test_the_covering_radius_says_its_distance_and_how_many_runs_there_are_in_one_spelling() -> None:
    one, two = identity("final", 1, "a"), [identity("final", run, "b") for run in (1, 2)]
    random = np.random.default_rng(0)

    def words(*of: Identity) -> str:
        records = [fold(each, number, 0.3) for each in of for number in (0, 1)]
        (drawing,) = covering_radius(embedded(["x"] * 4, records, lambda job: random.normal(size=(4, 3)))).drawings
        return " ".join(texts(drawn(drawing)))

    assert "Runs of each method: 2." in words(*two)
    said = words(one, *two)
    assert "Runs: a 1, b 2." in said
    assert "covering radius (Euclidean distance)" in said
    assert "centres" in said
    assert "center" not in said


def test_embeddings_that_are_not_one_for_each_image_and_runs_without_folds_are_refused() -> None:
    records = [fold(identity("final", 1), number, 0.3) for number in (0, 1)]
    with pytest.raises(ReportError, match="3 test embeddings of 4 test images"):
        covering_radius(embedded(["x"] * 4, records, lambda job: np.ones((3, 2))))
    with pytest.raises(ReportError, match="no run has all its fold models"):
        covering_radius(embedded(["x"] * 4, records[:1], lambda job: np.ones((4, 2))))
    with pytest.raises(ReportError, match="mlrc run makes some"):
        embedding_map(embedded([], [], lambda job: np.ones((0, 2))))


CLASSES = [f"class {n // 40:02d}" for n in range(480)]
CLOUD = np.random.default_rng(1).normal(size=(480, 5)) * [5, 3, 1, 1, 1]


def test_a_map_is_of_the_two_principal_components_in_the_order_of_the_images() -> None:
    drawing = plane(fold(identity("final", 1), 0, 0.3), CLOUD, Pictures(CLASSES))
    found = lines(drawing)
    assert [line["class"] for line in found] == CLASSES
    assert found[7]["file"] == "class 00/7.png"
    centred = CLOUD - CLOUD.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2]
    for name, axis in zip("xy", axes[:2], strict=True):
        got, wanted = np.array([float(line[name]) for line in found]), centred @ axis
        assert np.abs(got - wanted * np.sign(got @ wanted)).max() < 1e-9
    assert style.png(drawing.figure) == style.png(
        plane(fold(identity("final", 1), 0, 0.3), CLOUD, Pictures(CLASSES)).figure
    )
    svg = drawn(drawing)
    shown = [line for line in found if line["thumbnail"] == "True"]
    images = [item for item in svg.iter() if item.tag.endswith("}image")]
    assert len(images) == len(shown) > 20
    assert len({line["class"] for line in found} & set(texts(svg))) == 8  # classes in the legend
    assert "Test embeddings of run 1, fold model 0; PCA." in " ".join(texts(svg))


def test_thumbnails_are_some_hundred_at_most_and_never_overlap() -> None:
    spread = np.random.default_rng(2).uniform(size=(3000, 2)) * [1.0, 0.8]
    found = lines(plane(fold(identity("final", 1), 0, 0.3), spread, Pictures(["a"] * 3000)))
    shown = np.array([[float(line["x"]), float(line["y"])] for line in found if line["thumbnail"] == "True"])
    assert len(shown) == MOST_THUMBNAILS
    everywhere = np.array([[float(line["x"]), float(line["y"])] for line in found])
    side = THUMBNAIL * np.ptp(everywhere, axis=0).max()
    apart = np.abs(shown[:, None] - shown[None]).max(axis=2) + np.eye(len(shown)) * side
    assert apart.min() >= side * (1 - 1e-9)


def test_a_large_test_side_is_sampled_and_says_so() -> None:
    cloud = np.random.default_rng(3).normal(size=(5100, 3))
    drawing = plane(fold(identity("final", 1), 0, 0.3), cloud, Pictures(["a"] * 5100))
    assert len(lines(drawing)) == 5000
    assert "5000 of 5100 images" in drawing.notes[0]


def test_t_sne_gives_the_same_plane_again_and_says_what_it_is() -> None:
    some = [plane(fold(identity("final", 1), 0, 0.3), CLOUD[:60], Pictures(CLASSES[:60]), tsne=True) for _ in range(2)]
    assert some[0].csv() == some[1].csv()
    assert "t-SNE with a fixed seed" in some[0].notes[0]
    pca = plane(fold(identity("final", 1), 0, 0.3), CLOUD[:60], Pictures(CLASSES[:60]))
    assert pca.csv() != some[0].csv()


@pytest.mark.parametrize("shape", [(2, 5), (9, 1)])
def test_what_has_no_plane_is_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(ReportError, match="a plane needs at least 3 in 2"):
        plane(fold(identity("final", 1), 0, 0.3), np.ones(shape), Pictures(["a"] * shape[0]))


def test_a_map_shows_the_first_fold_model_of_each_method() -> None:
    records = [fold(identity("final", run, method), n, 0.3) for method in "ab" for run in (1, 2) for n in (0, 1)]
    asked: list[str] = []

    def load(job: str) -> np.ndarray:
        asked.append(job)
        return CLOUD[:9]

    found = embedding_map(embedded(CLASSES[:9], records, load)).drawings
    assert [one.subject.method for one in found] == ["a", "b"]
    assert asked == [records[0].id, records[4].id]


def test_the_label_of_a_wide_map_lies_within_the_picture(caplog: pytest.LogCaptureFixture) -> None:
    angles = np.linspace(0, 2 * np.pi, 480)
    ring = np.stack([np.cos(angles), 0.95 * np.sin(angles)], axis=1)
    classes = [f"Language/character{n // 40:02d}" for n in range(480)]
    with mpl.rc_context(style.STYLE):
        figure = plane(fold(identity("final", 1), 0, 0.3), ring, Pictures(classes)).figure()
        FigureCanvasAgg(figure).draw()
        assert figure.axes[0].yaxis.label.get_window_extent().x0 > 0
    assert not caplog.records
