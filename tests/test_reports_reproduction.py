"""Ours against published figures: differences by hand, verdicts by both intervals, and what was not run."""

import csv
import io
import json
import math

import pytest
from published_runs import DIGESTS, SPREAD, on_a_part, runs
from rich.console import Console
from scipy.stats import t
from test_reports_tables import fold_record, identity

from benchmark.methods.registry import method_entry
from protocols.catalogue import CCP_V1, LITE_V1, MLRC_V1
from protocols.derive import derive
from reports.errors import ReportError
from reports.frame import runs_frame
from reports.reproduction import Figure, Reproduction, Verdict, reproductions, summary
from reports.reproduction_forms import as_dict, to_csv, to_markdown, to_terminal
from reports.tabulation import result_tables
from results.record import Record

DEVIATION = math.sqrt(sum(offset**2 for offset in SPREAD) / 9)
HALF_WIDTH = float(t.ppf(0.975, 9)) * DEVIATION / math.sqrt(10)


def held_against(records: list[Record]) -> list[Reproduction]:
    return reproductions(result_tables(runs_frame(records)), DIGESTS)


def figure(found: list[Reproduction], method: str, setting: str = "concatenated") -> Figure:
    (one,) = [
        figure
        for reproduction in found
        for figure in reproduction.figures
        if (figure.method, figure.setting, figure.metric) == (method, setting, "map_at_r")
    ]
    return one


def test_the_difference_and_its_units_are_as_computed_by_hand() -> None:
    found = figure(held_against(runs("contrastive", 0.2682)), "contrastive")  # the paper has 26.53 +- 0.29
    assert found.difference == pytest.approx(0.0029)
    assert found.in_half_widths == pytest.approx(1.0)
    assert found.half_width == pytest.approx(HALF_WIDTH)
    assert (found.published.mean, found.n_runs) == (0.2653, 10)


@pytest.mark.parametrize(
    ("share", "verdict"),
    [(0.0, "agrees"), (0.99, "agrees"), (-0.99, "agrees"), (1.01, "above"), (-1.01, "below"), (5.0, "above")],
)
def test_the_verdict_turns_where_the_difference_leaves_the_interval_of_both(share: float, verdict: str) -> None:
    reach = math.sqrt(HALF_WIDTH**2 + 0.0029**2)
    assert figure(held_against(runs("contrastive", 0.2653 + share * reach)), "contrastive").verdict == verdict


@pytest.mark.parametrize(("share", "verdict"), [(0.99, "agrees"), (1.01, "above"), (-1.01, "below")])
def test_a_paper_without_an_interval_counts_as_exact(share: float, verdict: str) -> None:
    found = held_against(runs("ccp-contrastive", 0.2802 + share * HALF_WIDTH, CCP_V1))
    assert figure(found, "ccp-contrastive").verdict == verdict
    assert figure(found, "ccp-contrastive").in_half_widths is None


@pytest.mark.parametrize(("mean", "verdict"), [(0.14214, "agrees"), (0.1424, "above"), (0.1418, "below")])
def test_without_any_interval_numbers_agree_up_to_the_last_printed_digit(mean: float, verdict: str) -> None:
    fold, *_, side_by_side = runs("pretrained", mean - SPREAD[0], n_runs=1)
    assert figure(held_against([fold, side_by_side]), "pretrained").verdict == verdict


def test_methods_without_a_record_and_means_that_lack_runs_are_not_run_and_say_why() -> None:
    found = held_against(runs("contrastive", 0.2653, n_runs=9))
    lacking, absent = figure(found, "contrastive"), figure(found, "triplet")
    assert (lacking.verdict, lacking.mean, lacking.difference) == (Verdict.NOT_RUN, None, None)
    assert lacking.reason == "9 of 10 runs; run 10: not run"
    assert (absent.verdict, absent.reason) == (Verdict.NOT_RUN, "no record")
    assert summary(found) == "90 published figures: 0 agree, 0 above, 0 below, 90 not run."


def test_every_published_figure_of_the_protocol_and_data_set_is_listed_once() -> None:
    found = held_against(runs("contrastive", 0.2653) + runs("contrastive", 0.25, dataset="cars196"))
    assert [len(one.figures) for one in found] == [90, 90]
    assert {figure.published.dataset for figure in found[1].figures} == {"cars196"}
    assert {figure.published.protocol for one in found for figure in one.figures} == {"mlrc@1"}


@pytest.mark.parametrize(
    ("dataset", "name", "printed", "mean"),
    [
        ("cub200", "xbm(contrastive-cosine)", "C1-XBM-L", 0.2487),
        ("sop", "soft-triple-s", "SoftTriple-S", 0.5077),
        ("cub200", "soft-triple", "SoftTriple-L", 0.2602),
    ],
)
def test_what_runs_record_is_held_against_the_figure_of_the_same_method(
    dataset: str, name: str, printed: str, mean: float
) -> None:
    recorded = method_entry(name).name
    found = figure(held_against(runs(recorded, mean, CCP_V1, dataset)), recorded)
    assert (found.published.method_as_printed, found.published.mean, found.verdict) == (printed, mean, "agrees")


def test_ten_centres_are_held_against_no_figure_of_one() -> None:
    (found,) = held_against(runs("soft-triple", 0.5077, CCP_V1, "sop"))
    assert {one.verdict for one in found.figures} == {Verdict.NOT_RUN}


def test_two_variants_of_a_method_are_each_held_against_the_figure() -> None:
    records = runs("contrastive", 0.2653) + runs("contrastive", 0.3, hyperparameters={"alpha": 3.0})
    figures = [one for one in held_against(records)[0].figures if one.published.method == "contrastive"]
    verdicts = {one.method: one.verdict for one in figures if (one.setting, one.metric) == ("concatenated", "map_at_r")}
    assert verdicts == {"contrastive (alpha=2.0)": "agrees", "contrastive (alpha=3.0)": "above"}


@pytest.mark.parametrize("protocol", [LITE_V1, derive(MLRC_V1, ["max_steps=10"])])
def test_other_protocols_are_refused_in_one_line_with_what_papers_have(protocol: object) -> None:
    records: list[Record] = [fold_record(identity("contrastive", 1, protocol), 0, 0.5)]  # type: ignore[arg-type]
    with pytest.raises(ReportError, match=r"papers have ccp@1 on cars196.*mlrc@1 on cars196, cub200, sop") as refusal:
        held_against(records)
    assert "\n" not in str(refusal.value)


def test_records_of_a_part_of_the_published_data_set_get_no_verdict_and_the_sizes_are_told_once() -> None:
    found = held_against(on_a_part(runs("contrastive", 0.2653)) + runs("contrastive", 0.25, dataset="cars196"))
    assert [one.count(Verdict.NOT_RUN) for one in found] == [90, 90 - 6]
    assert figure(found[:1], "contrastive").mean is None
    reason = "not the published data set: 12 classes and 48 images; CUB-200-2011 has 200 classes and 11,788 images"
    assert {one.reason for one in found[0].figures} == {reason}
    assert to_markdown(found).count(reason) == 1
    assert [line for line in csv.DictReader(io.StringIO(to_csv(found))) if line["reason"] == reason]


def test_a_forged_title_is_held_against_nothing() -> None:
    tables = result_tables(runs_frame(runs("contrastive", 0.2653)))
    with pytest.raises(ReportError):
        reproductions(tables, {**DIGESTS, "mlrc@1": "0" * 12})


def test_all_forms_hold_every_figure_with_its_verdict() -> None:
    found = held_against(runs("contrastive", 0.2653) + runs("triplet", 0.3))
    values = json.loads(json.dumps(as_dict(found), allow_nan=False))
    assert values["counts"]["not run"] == 90 - 12
    assert len(values["reproductions"][0]["figures"]) == 90
    lines = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert len(lines) == 90
    assert {line["verdict"] for line in lines} == {"agrees", "above", "below", "not run"}
    markdown = to_markdown(found)
    assert f"| triplet | 23.69 ± 0.23 | 30.00 ± {100 * HALF_WIDTH:.2f} | +6.31 | +27.4 | above |" in markdown
    assert markdown.count("\n| ") >= 90


def test_a_reproduction_fits_eighty_columns_and_ends_with_the_counts() -> None:
    console = Console(width=80, file=io.StringIO())
    console.print(to_terminal(held_against(runs("contrastive", 0.2653))))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1].startswith("90 published figures: ")
    assert [line for line in lines if line.startswith("contrastive ") and "±" in line]
