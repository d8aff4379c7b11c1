"""The parts of the site: names, scales, charts, ranges, and what test embeddings show, held against the metrics."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from site_records import site_records
from torch.nn.functional import normalize

from protocols.metrics import evaluate
from reports.errors import ReportError
from reports.site import neighbours
from reports.site.charts import Plane, ticks
from reports.site.intervals import MARGIN, WIDTH, scale
from reports.site.names import file_stem, marked
from reports.site.neighbours import SHOWN_QUERIES, look_up, side_by_side
from reports.site.searches import knobs
from reports.site.training import curves
from reports.site.writing import breakable, counted, environment, linked, prose
from results.record import Validation


@pytest.mark.parametrize("name", ["proxy-anchor", "0123456789abcdef", "resnet50", "a.b"])
def test_a_plain_name_is_its_own_file_name(name: str) -> None:
    assert file_stem(name) == name


def test_other_names_become_safe_and_stay_apart() -> None:
    names = [
        "<script>",
        "a/b",
        "a\\b",
        "../../etc/passwd",
        "A",
        "a ",
        "",
        "..",
        "con",
        "CON",
        "nul.x",
        "é",
        "\ud800",
        "a:b",
    ]
    names += ["x" * 300, "x" * 301, "proxy-nca++", "a.", ".a", "a--b", "\u202eabc"]
    found = [file_stem(name) for name in names]
    assert len({one.lower() for one in found}) == len(names)
    for one in found:
        assert len(one) <= 60
        assert one.replace("-", "").isalnum()
        assert one.isascii()
        assert one.partition("-")[0] not in {"con", "nul"} or "-" in one
    assert marked("mlrc@1-cub200", "a", "b") != marked("mlrc@1-cub200", "a", "c")


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0.0, 100.0, ["0", "20", "40", "60", "80", "100"]),
        (23.1, 26.4, ["24", "25", "26"]),
        (0.61, 0.83, ["0.65", "0.70", "0.75", "0.80"]),
    ],
)
def test_ticks_are_round_numbers_within_the_range(low: float, high: float, wanted: list[str]) -> None:
    found = ticks(low, high, 5)
    assert [text for _, text in found] == wanted
    assert all(low - 1e-9 <= value <= high + 1e-9 for value, _ in found)
    assert [float(text) for _, text in found] == pytest.approx([value for value, _ in found])


def test_a_plane_puts_the_ends_at_its_edges_and_equal_values_in_the_middle() -> None:
    plane = Plane([0, 10], [1.0, 3.0])
    assert (plane.x(0), plane.x(10)) == (46, 628)
    assert 26 < plane.y(3.0) < plane.y(2.0) < plane.y(1.0) < 204
    assert plane.line([(0, 1.0), (10, 3.0)]) == f"M46 {plane.y(1.0)}l582{plane.y(3.0) - plane.y(1.0)}"
    flat = Plane([5, 5], [2.0, 2.0])
    assert (flat.x(5), flat.y(2.0)) == (337, 115)
    assert Plane([0, 1], [0, 1]).line([(n / 1000, 0.5) for n in range(1000)]).count("l") == 47  # thinned


def test_a_mark_spans_its_interval_and_what_lies_far_away_is_an_arrow() -> None:
    found = scale([(0.25, 0.01), (0.24, 0.02), (0.26, None)], [0.02, 0.23])
    assert (found.low, found.high) == pytest.approx((0.22, 0.26))
    width = (WIDTH - 2 * MARGIN) / 0.04
    assert found.mark(0.25, 0.01).interval == f"M{round(MARGIN + 0.02 * width)} 8h{round(0.02 * width)}"
    assert found.mark(0.25, 0.01).mean == f"M{round(MARGIN + 0.03 * width)} 8h0"
    assert found.mark(0.26, None).interval == ""
    assert found.mark(0.02, 0.001).beyond == "M8 4l-6 4 6 4z"
    assert found.mark(0.9, 0.001).beyond.startswith(f"M{WIDTH - 8}")
    assert found.mark(None, None) == scale([]).mark(None, None)
    equal = scale([(0.3, 0.0)] * 3)
    assert equal.low < 0.3 < equal.high


def test_a_winner_lies_in_its_range_on_the_scale_of_its_search() -> None:
    space = {
        "lr": {"type": "float", "low": 1e-4, "high": 1.0, "log": True},
        "margin": {"type": "float", "low": -1.0, "high": 1.0, "log": False},
        "n": {"type": "int", "low": 1, "high": 16, "log": False},
        "kind": {"type": "categorical", "choices": ["a", "b"]},
        "fixed": {"type": "float", "low": 0.0, "high": 0.0, "log": False},
    }
    found = {
        one.name: one for one in knobs({"lr": 1e-2, "margin": 1.0, "n": 16, "kind": "a", "fixed": 0.0, "x": 2}, space)
    }
    assert found["lr"].place == pytest.approx(0.5)
    assert [name for name, one in found.items() if one.is_at_the_edge] == ["margin", "n"]
    assert [name for name, one in found.items() if one.place is None] == ["kind", "fixed", "x"]


def test_curves_mark_the_best_step_and_where_each_new_problem_begins() -> None:
    (record,) = [
        one
        for one in site_records(("ccp-contrastive",), ("other",), "finals.n_runs=1", "folds.n_folds=2")
        if getattr(one, "fold", 1) == 0
    ]
    curve = tuple(Validation(step=step, map_at_r=0.1 * step / 100, loss=None) for step in (100, 200, 300))
    state = {"problems": [{"after_step": 0}, {"after_step": 100}, {"after_step": 300}]}
    found = curves([type(record)(**{**vars(record), "curve": curve, "best_step": 200, "method_state": state})])
    assert found is not None
    assert (found.switches, found.n_others, found.loss) == ((100, 300), 0, None)
    paths = {path.look: path.d for path in found.validation.paths}
    assert paths["switch"] == "M46 26V204M628 26V204"
    assert paths["dots"] == "M337 115h0"
    assert "best 20.00 at step 200; new problems after steps 100, 300" in found.validation.says
    assert curves([type(record)(**{**vars(record), "curve": curve[:1]})]) is None


def clusters(n: int, n_classes: int, seed: int) -> tuple[NDArray[np.float32], list[str]]:
    """Embeddings in noisy clusters; some images are there twice, so that distances tie."""
    random = np.random.default_rng(seed)
    labels = random.integers(n_classes, size=n)
    found = (random.normal(size=(n_classes, 8))[labels] + 1.5 * random.normal(size=(n, 8))).astype(np.float32)
    found[1::7] = found[0::7][: len(found[1::7])]
    return found, [f"class {label}" for label in labels]


@pytest.mark.parametrize("with_gallery", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_scores_of_classes_are_the_metric_of_the_protocols(seed: int, with_gallery: bool) -> None:
    embeddings, classes = clusters(90, 6, seed)
    gallery = np.random.default_rng(seed).random(90) < 0.5 if with_gallery else None
    labels = torch.tensor([int(name.split()[1]) for name in classes])
    vectors = torch.from_numpy(embeddings)
    if gallery is None:
        wanted = evaluate(vectors, labels).metrics["map_at_r"]
    else:
        stored = torch.from_numpy(gallery)
        wanted = evaluate(
            vectors[~stored], labels[~stored], gallery=vectors[stored], gallery_labels=labels[stored]
        ).metrics["map_at_r"]
    found = look_up(embeddings, classes, gallery)
    assert found.map_at_r == pytest.approx(wanted, abs=1e-12)
    assert list(found.by_class.values()) == sorted(found.by_class.values())
    assert found.n_queries == found.n_all


def test_neighbours_are_the_nearest_of_all_others_and_queries_are_of_different_classes() -> None:
    embeddings, classes = clusters(60, 10, 3)
    found = look_up(embeddings, classes)
    assert len({classes[query.row] for query in found.queries}) == len(found.queries) == SHOWN_QUERIES
    for query in found.queries:
        distances = np.linalg.norm(embeddings.astype(float) - embeddings[query.row].astype(float), axis=1)
        distances[query.row] = np.inf
        assert query.neighbours == tuple(np.argsort(distances, kind="stable")[:8])
    again = look_up(embeddings + 1, classes)  # of another method: the same queries
    assert [query.row for query in again.queries] == [query.row for query in found.queries]


def test_many_queries_are_sampled_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "MOST_QUERIES", 20)
    monkeypatch.setattr(neighbours, "CHUNK_BYTES", 1000)
    embeddings, classes = clusters(80, 4, 4)
    found = look_up(embeddings, classes)
    assert (found.n_queries, found.n_all, len(found.queries)) == (20, 80, SHOWN_QUERIES)


def test_a_test_side_without_pairs_is_refused() -> None:
    with pytest.raises(ReportError, match="no test image has another of its class"):
        look_up(np.eye(3, dtype=np.float32), ["a", "b", "c"])


def test_fold_models_stand_side_by_side_each_of_unit_length() -> None:
    parts = [clusters(12, 3, seed)[0] for seed in (5, 6)]
    tensors = [torch.from_numpy(part) for part in parts]
    wanted = normalize(torch.cat([normalize(part, dim=1) for part in tensors], dim=1), dim=1).numpy()
    assert side_by_side(parts) == pytest.approx(wanted, abs=1e-6)
    assert side_by_side(parts[:1]) is parts[0]


def test_only_web_addresses_become_links_and_all_else_stays_text() -> None:
    text = linked('A <b>, https://arxiv.org/abs/1234.5; "javascript:alert(1)" https://x.y/"onclick="z')
    assert str(text) == (
        'A &lt;b&gt;, <a rel="noreferrer" href="https://arxiv.org/abs/1234.5">https://arxiv.org/abs/1234.5</a>; '
        '&#34;javascript:alert(1)&#34; <a rel="noreferrer" href="https://x.y/">https://x.y/</a>&#34;onclick=&#34;z'
    )


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("proxy-anchor", ["proxy-anchor"]),  # a browser breaks at hyphens by itself
        ("losses/my_loss.py:SquaredContrastive", ["losses/", "my_", "loss.py:", "Squared", "Contrastive"]),
        ("ccp(ms) (w_lr=0.1)", ["ccp(", "ms) (w_lr=0.1)"]),
        ("pml:ProxyNCALoss", ["pml:", "ProxyNCALoss"]),
        ("<b>:", ["&lt;b&gt;:"]),
    ],
)
def test_a_name_may_be_broken_where_its_words_end_and_nowhere_else(name: str, parts: list[str]) -> None:
    assert str(breakable(name)).split("<wbr>") == parts


def test_one_of_a_thing_is_not_called_many() -> None:
    assert [counted(n, "run") for n in (0, 1, 2000)] == ["0 runs", "1 run", "2,000 runs"]
    assert [counted(n, "query", "queries") for n in (1, 2)] == ["1 query", "2 queries"]


def test_paragraphs_of_a_docstring_flow_and_its_formulas_keep_their_lines() -> None:
    assert str(prose("A loss of\n<two> lines.\n\n    a +\n    b\n\nThe end.")) == (
        "<p>A loss of\n&lt;two&gt; lines.</p>\n<pre>    a +\n    b</pre>\n<p>The end.</p>"
    )


def test_control_characters_of_a_name_are_not_printed() -> None:
    printed = environment().from_string("{{ name }}").render(name="a\u202eb\x1b[31m & <c>\nd")
    assert printed == "a\ufffdb\ufffd[31m &amp; &lt;c&gt;\nd"
