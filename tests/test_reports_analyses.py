"""The figures of records: the CSV holds what was put in, the picture shows it, a refusal is one line."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from figure_records import VALUES, drawn, fold, identity, lines, texts
from matplotlib.tri import LinearTriInterpolator

from reports.analyses.batch_size import batch_size
from reports.analyses.catalogue import FIGURES, figure_named
from reports.analyses.coarse_proxies import coarse_proxies
from reports.analyses.drawing import Drawing, Subject
from reports.analyses.problems import steps_per_problem
from reports.analyses.surface import delaunay, lambda_by_proxies, pool_by_proxies, surface
from reports.errors import ReportError
from reports.save import save_drawings
from reports.style import svg
from results.record import FoldRecord

SUBJECT = Subject("mini@1", "c34d1f58254c", "things", "ab" * 6, "balanced", "cd" * 6, "ccp-contrastive")


def search(*trials: tuple[dict[str, Any], list[float | None]], method: str = "ccp-contrastive") -> list[FoldRecord]:
    """The records of a search: of each trial the hyper-parameters and the value of each fold."""
    of = [(identity("search", method=method, **values), folds) for values, folds in trials]
    return [fold(one, number, value) for one, folds in of for number, value in enumerate(folds)]


def ccp(lam: float, n_proxies: int, *folds: float | None) -> tuple[dict[str, Any], list[float | None]]:
    return {"lambda": lam, "n_proxies": n_proxies, "pool_size": n_proxies % 3 + 1, "neg_margin": lam + 1}, list(folds)


SIX = (
    ccp(1e-4, 2, 0.10, 0.20),
    ccp(1e-3, 4, 0.20, 0.30),
    ccp(1e-2, 8, 0.30, 0.40),
    ccp(5e-2, 3, 0.15, 0.25),
    ccp(2e-5, 12, 0.05, 0.07),
    ccp(2e-4, 16, None, 0.30),
)


def points(svg: ElementTree.Element, *, fill: str = "", stroke: str = "") -> int:
    """Markers of collections and lines that have this colour."""
    uses = [item.get("style", "") for item in svg.iter() if item.tag.endswith("}use")]
    return sum(f"fill: {fill}".rstrip() in text and f"stroke: {stroke}".rstrip() in text for text in uses)


def groups(svg: ElementTree.Element, name: str) -> int:
    return sum(item.get("id", "").startswith(name) for item in svg.iter())


# --- trials


def test_a_surface_has_every_trial_with_the_mean_and_the_reach_of_its_folds() -> None:
    (drawing,) = lambda_by_proxies(search(*SIX)).drawings
    found = lines(drawing)
    assert len(found) == len(SIX)
    for line, (values, folds) in zip(found, SIX, strict=True):
        assert (float(line["lambda"]), int(line["n_proxies"])) == (values["lambda"], values["n_proxies"])
        assert json.loads(line["hyperparameters"]) == values
        assert (line["protocol"], line["protocol_digest"], line["method"]) == ("mini@1", "d1", "ccp-contrastive")
        known = [value for value in folds if value is not None]
        if len(known) == len(folds):
            assert float(line["map_at_r"]) == pytest.approx(fmean(known))
            assert (float(line["lowest_fold"]), float(line["highest_fold"])) == (min(known), max(known))
            assert line["missing"] == ""
    assert (found[-1]["map_at_r"], found[-1]["missing"]) == ("", "collapsed")


def test_a_surface_shows_its_points_its_best_its_failures_and_says_how_it_is_coloured() -> None:
    (drawing,) = lambda_by_proxies(search(*SIX)).drawings
    svg = drawn(drawing)
    assert "35.00" in texts(svg)  # the best, in percent
    joined = " ".join(texts(svg))
    assert "linear on the Delaunay triangles" in joined
    assert "Other values moved from trial to trial as well: neg_margin, pool_size." in joined
    assert "mini@1 (d1)" in joined
    assert points(svg, stroke="#d55e00") == 1
    assert points(svg, stroke="#000000") == 5 + 1  # the finished trials and the star
    assert groups(svg, "TriContourSet") == 1


def test_the_colour_between_trials_is_linear_and_nothing_lies_outside_of_them() -> None:
    x, y = np.array([1.0, 3.0, 1.0, 3.0, 2.0]), np.array([10.0, 10.0, 30.0, 30.0, 20.0])
    between = LinearTriInterpolator(delaunay(x, y, log=False), 2 * x + 0.1 * y)
    assert between(1.5, 17.0) == pytest.approx(2 * 1.5 + 1.7)
    assert np.ma.is_masked(between(3.5, 20.0))
    x, y = np.random.default_rng(0).uniform(size=(2, 20))
    plain, as_log = delaunay(x, 100 * y, log=False), delaunay(1000.0**x, y, log=True)
    assert plain.triangles.tolist() == as_log.triangles.tolist()  # neighbours are neighbours in the picture
    assert (as_log.x == 1000.0**x).all()


def test_trials_on_one_line_have_no_surface_and_still_their_points() -> None:
    trials = [ccp(10.0**-power, 4, 0.1 * power, 0.1 * power) for power in (1, 2, 3, 4, 5)]
    (drawing,) = lambda_by_proxies(search(*trials)).drawings
    svg = drawn(drawing)
    assert groups(svg, "TriContourSet") == 0
    assert groups(svg, "PathCollection") >= 2
    same = [({**values, "n_proxies": number}, [0.2, 0.2]) for number, (values, _) in enumerate(trials, start=1)]
    assert drawn(lambda_by_proxies(search(*same)).drawings[0])  # one value everywhere


def test_a_trial_that_is_still_open_is_no_trial_and_one_that_is_repeated_is_one() -> None:
    records = [*search(*SIX), *search(ccp(0.09, 9, 0.9)), *search(SIX[0])]
    (drawing,) = pool_by_proxies(records).drawings
    assert [float(line["lambda"]) for line in map(_values, lines(drawing))] == [values["lambda"] for values, _ in SIX]


def _values(line: dict[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(line["hyperparameters"])
    return values


def test_too_few_trials_or_none_are_one_line_with_the_way_out() -> None:
    with pytest.raises(ReportError, match=r"ccp-contrastive \(mini@1, things\): 4 different trials finished.*needs 5"):
        lambda_by_proxies(search(*SIX[:4], SIX[5]))
    with pytest.raises(ReportError, match=r"no search over lambda and n_proxies.*mlrc search ccp-contrastive"):
        lambda_by_proxies(search(({"margin": 0.1}, [0.1, 0.1]), method="triplet"))
    with pytest.raises(ReportError, match=r"n_coarse_1.*mlrc search hpl-proxy-anchor"):
        coarse_proxies([])
    found = lambda_by_proxies([*search(*SIX), *search(*SIX[:2], method="ccp-ms")])
    assert [drawing.subject.method for drawing in found.drawings] == ["ccp-contrastive"]
    assert [reason.partition(" ")[0] for reason in found.left_out] == ["ccp-ms"]


def test_each_protocol_and_method_has_a_picture_of_its_own() -> None:
    other = [
        replace(record, identity=replace(record.identity, protocol={**record.identity.protocol, "digest": "d2"}))
        for record in search(*SIX)
    ]
    found = lambda_by_proxies([*search(*SIX), *other, *search(*SIX, method="ccp-ms")]).drawings
    assert {(one.subject.protocol_digest, one.subject.method) for one in found} == {
        ("d1", "ccp-contrastive"),
        ("d2", "ccp-contrastive"),
        ("d1", "ccp-ms"),
    }
    assert [len(lines(one)) for one in found] == [6, 6, 6]


@pytest.mark.filterwarnings("error")
def test_any_name_can_be_drawn_without_a_warning() -> None:
    trials = pd.DataFrame(
        {
            "pool_size": [1, 2, 3],
            "n_proxies": [3, 1, 2],
            "map_at_r": [0.0, 0.0, 0.0],
            "lowest_fold": [0.0, 0.0, 0.0],
            "highest_fold": [0.0, 0.0, 0.0],
            "missing": ["", "", ""],
            "hyperparameters": ["{}", "{}", "{}"],
        }
    )
    odd = SUBJECT._replace(dataset="$x_{$ 漢字 <svg>&amp; a\nb", method="very/long/" + "path/" * 40)
    assert any(
        "$x_{$ 漢字 <svg>&amp; a\N{REPLACEMENT CHARACTER}b" in text
        for text in texts(drawn(surface(odd, trials, "pool_size", "n_proxies")))
    )


def test_coarse_proxies_have_a_panel_for_each_level_and_bars_over_the_folds() -> None:
    one = [({"n_coarse_1": 2 + n, "omega_1": 0.1 * n}, [0.1 * n, 0.1 * n + 0.05]) for n in range(1, 7)]
    two = [({**values, "n_coarse_2": 2 + n}, folds) for n, (values, folds) in enumerate(one)]
    two.append(({"n_coarse_1": 9, "omega_1": 0.5, "n_coarse_2": 3}, [None, None]))
    found = coarse_proxies([*search(*one, method="hpl-proxy-nca"), *search(*two, method="hpl3(proxy-nca)")]).drawings
    assert [len(lines(drawing)) for drawing in found] == [6, 7]
    assert [line["n_coarse_1"] for line in lines(found[0])] == ["3", "4", "5", "6", "7", "8"]
    assert "n_coarse_2" not in lines(found[0])[0]
    single, double = map(drawn, found)
    assert (groups(single, "axes_"), groups(double, "axes_")) == (1, 2)
    assert points(single, stroke="#d55e00") == 0
    assert points(double, stroke="#d55e00") == 2  # the failed trial, in both panels
    assert (groups(single, "LineCollection"), groups(double, "LineCollection")) == (1, 2)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n_coarse", [3, 5, 10, 100])
def test_coarse_proxies_that_are_the_same_in_all_trials_are_inside_of_the_panel(n_coarse: int) -> None:
    same = [({"n_coarse_1": n_coarse, "omega_1": 0.1 * n}, [0.1 * n, 0.1 * n]) for n in range(1, 7)]
    (drawing,) = coarse_proxies(search(*same, method="hpl-proxy-nca")).drawings
    _inside(drawing, n_coarse)


@pytest.mark.filterwarnings("error")
def test_a_lambda_that_is_the_same_in_all_trials_is_inside_of_the_picture() -> None:
    (drawing,) = lambda_by_proxies(search(*(ccp(1e-3, 4 + n, 0.1 * n, 0.1 * n) for n in range(1, 7)))).drawings
    _inside(drawing, 1e-3)


def _inside(drawing: Drawing, x: float) -> None:
    """The point lies between the limits as they are drawn, with room on both sides."""
    figure = drawing.figure()
    svg(lambda: figure)
    left, right = figure.axes[0].get_xlim()
    assert left < 0.9 * x < 1.1 * x < right


# --- problems


def chain(run: int, number: int, *n_steps: int) -> FoldRecord:
    problems = [{"n_steps": n, "best_step": n - 1, "best_map_at_r": 0.01 * n, "lambda": 0.0} for n in n_steps]
    of = identity("final", run, **{"lambda": 0.1})
    return fold(of, number, 0.3, {"n_problems": len(problems), "problems": problems})


def test_steps_of_each_problem_are_averaged_over_runs_that_have_it_in_every_fold() -> None:
    records = [chain(1, 0, 30, 40, 10), chain(1, 1, 50, 20), chain(2, 0, 60, 20), chain(2, 1, 80, 40)]
    (drawing,) = steps_per_problem(records).drawings
    found = lines(drawing)
    assert [(line["run"], line["fold"], line["problem"], line["n_steps"]) for line in found[:3]] == [
        ("1", "0", "1", "30"),
        ("1", "0", "2", "40"),
        ("1", "0", "3", "10"),
    ]
    by_problem = {line["problem"]: line for line in found}
    assert float(by_problem["1"]["mean"]) == fmean([40, 70])
    assert float(by_problem["1"]["ci95_half_width"]) == pytest.approx(12.7062 * 15, rel=1e-4)
    assert (by_problem["2"]["mean"], by_problem["2"]["n_runs"]) == ("30.0", "2.0")
    assert by_problem["3"]["mean"] == ""
    assert sum(line["is_last"] == "True" for line in found) == 4
    svg = drawn(drawing)
    assert points(svg, fill="#56b4e9", stroke="#0072b2") == 5
    assert points(svg, fill="none", stroke="#0072b2") == 4
    assert "training steps" in texts(svg)


def test_runs_of_other_hyper_parameters_are_another_picture_and_methods_without_problems_none() -> None:
    first, other = chain(1, 0, 30), chain(1, 0, 40)
    other = replace(other, identity=replace(other.identity, hyperparameters={"lambda": 0.2}))
    found = steps_per_problem([first, other]).drawings
    assert [one.subject.hyperparameters for one in found] == ['{"lambda": 0.1}', '{"lambda": 0.2}']
    assert len({one.subject.stem() for one in found}) == 2
    assert drawn(found[0])  # no run is whole: points alone
    with pytest.raises(ReportError, match="mlrc run ccp-contrastive"):
        steps_per_problem([fold(identity("final", 1), 0, 0.3)])


# --- batch size


def finals(digest: str, size: int, value: float, *, runs: tuple[int, ...] = (1, 2), **other: Any) -> list[FoldRecord]:
    values = {**VALUES, "derived": digest != "d1", "batch": {**VALUES["batch"], "size": size}, **other}  # type: ignore[dict-item]
    of = [identity("final", run, "contrastive", digest, values=values) for run in runs]
    return [fold(one, number, value + 0.01 * one.run) for one in of for number in (0, 1)]


def test_protocols_that_differ_in_the_batch_size_alone_meet_in_one_picture() -> None:
    records = [*finals("d2", 64, 0.4), *finals("d1", 32, 0.3), *finals("d3", 16, 0.2, runs=(1,))]
    records += finals("d4", 128, 0.5, optimiser={"lr": 0.2})
    (drawing,) = batch_size(records).drawings
    found = [line for line in lines(drawing) if line["setting"] == "separated"]
    assert [(line["batch_size"], line["protocol_digest"]) for line in found] == [
        ("16", "d3"),
        ("32", "d1"),
        ("64", "d2"),
    ]
    assert [float(line["mean"]) for line in found] == pytest.approx([0.21, 0.315, 0.415])
    assert [line["n_runs"] for line in found] == ["1", "2", "2"]
    assert found[0]["ci95_half_width"] == ""
    assert float(found[1]["ci95_half_width"]) == pytest.approx(12.7062 * 0.005, rel=1e-4)
    assert found[0]["missing"] == "run 2: not run"
    svg = drawn(drawing)
    joined = " ".join(texts(svg))
    assert "The protocols differ in batch.size alone." in joined
    assert "(d3, d1, d2)" in joined
    assert points(svg, fill="#ffffff") == 1  # hollow: a run is missing


def test_one_batch_size_or_another_difference_is_refused() -> None:
    with pytest.raises(ReportError, match=r"--set batch.size=64"):
        batch_size(finals("d1", 32, 0.3))
    with pytest.raises(ReportError, match=r"differ in batch.size alone"):
        batch_size([*finals("d1", 32, 0.3), *finals("d4", 64, 0.5, optimiser={"lr": 0.2})])
    searched = search(*SIX)
    for record in finals("d2", 64, 0.4):
        assert record.identity.purpose == "final"
    with pytest.raises(ReportError, match="final runs"):
        batch_size([*searched, *finals("d2", 64, 0.4)])


# --- names and files


def test_a_figure_that_is_unknown_gets_the_nearest_name() -> None:
    assert figure_named("problems") is FIGURES["problems"]
    with pytest.raises(ReportError, match=r"no figure named 'lambda-proxy'. Did you mean 'lambda-proxies'?"):
        figure_named("lambda-proxy")


def test_one_picture_is_three_files_of_its_name_and_several_are_told_apart(tmp_path: Path) -> None:
    one = lambda_by_proxies(search(*SIX)).drawings
    written = save_drawings("lambda-proxies", one, tmp_path / "one")
    assert sorted(path.name for path in written) == [f"lambda-proxies.{kind}" for kind in ("csv", "png", "svg")]
    assert all(path.stat().st_size > 100 for path in written)
    assert (tmp_path / "one" / "lambda-proxies.csv").read_text(encoding="utf-8") == one[0].csv()
    two = lambda_by_proxies([*search(*SIX), *search(*SIX, method="ccp(x/y:Z)")]).drawings
    names = sorted(path.name for path in save_drawings("lambda-proxies", two, tmp_path / "two"))
    assert len(set(names)) == 6
    assert "lambda-proxies-mini@1-things-ccp_x_y_Z_-d1-ab-cd.csv" in names
    with pytest.raises(ReportError, match="choose another --out"):
        save_drawings("lambda-proxies", one, tmp_path / "one" / "lambda-proxies.csv")
