"""The anchors of tests/anchors/ on small cases: what they compare, what they say of it, and that they go on."""

import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import draw_images, folds_in
from tiny import tiny_bench

from benchmark.executors.worker import perform
from benchmark.methods.registry import method_entry
from results.store import Store

sys.path.append(str(Path(__file__).parent / "anchors"))  # as for a script that lies there

import ccp_concept
import claims
import shapes_losses
import suites

CHAIN = {"n_proxies": 3, "pool_size": 5, "pos_margin": 0.0, "neg_margin": 0.4}
NUMBERS = {"start": {"covering_radius": 0.1, "spread": 0.2}, "end": {"covering_radius": 0.2, "spread": 0.1}}


def run_script(script, capsys, monkeypatch, *arguments: object) -> tuple[int, str, dict]:
    """The exit code, the table and the JSON line of an anchor, run in this process."""
    monkeypatch.setattr(sys, "argv", ["anchor", "--executor", "inline", *map(str, arguments)])
    capsys.readouterr()
    code = script.main()
    *lines, last = capsys.readouterr().out.splitlines()
    return code, "\n".join(lines), json.loads(last)


@pytest.fixture(scope="module")
def concept(tmp_path_factory):
    """Records of the proof of concept with a tenth of its steps."""
    asked = suites.command("").parse_args(
        ["--store", str(tmp_path_factory.mktemp("concept") / "store.db"), "--executor", "inline"]
    )
    settings = (*ccp_concept.SETTINGS, "n_runs=1", "max_steps=150", "cadence.evaluate_every_steps=5")
    return suites.final_records(ccp_concept.METHODS, "mini", "shapes:shifted?train=20&test=6", settings, asked)


@pytest.fixture(scope="module")
def chains(concept):
    """The chains of its two methods: of one problem, and of CCP."""
    return [ccp_concept.chains(suites.folds_of(concept, name)) for name in ccp_concept.LABELS]


def test_one_problem_is_ccp_until_ccp_goes_on_to_its_second_problem(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path, "max_steps=30", "cadence.evaluate_every_steps=1", "patience=30")
    values = {claims.ONE_PROBLEM: CHAIN, "ccp-contrastive": {**CHAIN, "lambda": 0.01, "batch_weight": 0.0}}
    one, many = (perform(bench.job(method_entry(name), values[name], run=0, fold=0)) for name in values)
    switch = many.method_state["problems"][1]["after_step"]
    assert one.curve[:switch] == many.curve[:switch]
    assert one.curve[switch:] != many.curve[switch:]
    assert one.method_state["n_problems"] == 1
    assert one.method_state["problems"][0]["start"] == many.method_state["problems"][0]["start"]


# That the radius of a solution falls takes some hundred steps: before, images of all classes lie closer and closer.
def test_proxies_of_one_problem_coalesce_while_the_chain_begins_again_where_images_lie(chains) -> None:
    single, many = chains
    found = ccp_concept.shown(single, many)
    assert found["coalesce"]["to"] < 0.1 < 1 < found["coalesce"]["from"]
    assert found["map_at_r"]["holds"]
    (chain,) = many
    assert len(chain) > 2
    for solved, begun in pairwise(chain):
        assert begun["start"]["covering_radius"] < solved["end"]["covering_radius"]


def test_the_concept_is_drawn_from_the_numbers_that_it_saves(concept, tmp_path: Path) -> None:
    drawing = ccp_concept.picture(concept)
    paths = ccp_concept.save_drawings("concept", [drawing], tmp_path)
    assert sorted(path.suffix for path in paths) == [".csv", ".png", ".svg"]
    for name, label in ccp_concept.LABELS.items():
        (fold,) = suites.folds_of(concept, name)
        part = drawing.data[drawing.data["line"] == label]
        radii = part[part["quantity"] == "covering radius"]["value"].tolist()
        problems = fold.method_state["problems"]
        assert radii == [problem[end]["covering_radius"] for problem in problems for end in ("start", "end")]
        curve = part[part["quantity"] == "MAP@R"]["value"].tolist()
        assert curve == [point.map_at_r for point in fold.curve]


def test_the_table_of_the_concept_marks_the_problem_that_training_cut_off(chains) -> None:
    single, many = chains
    lines = ccp_concept.table(single, many).splitlines()
    assert sum(line.endswith("cut off") for line in lines) == 1
    assert lines[1].split()[:3] == ["one", "problem", "1"]
    assert len(lines) == 1 + 1 + len(many[0]) + 3


@pytest.mark.parametrize(("radii", "holds"), [((0.4, 0.3), True), ((0.3, 0.4), False), ((0.3,), False)])
def test_a_radius_falls_between_the_first_and_the_last_problem_that_ended(radii, holds) -> None:
    ended = [{**NUMBERS, "best_map_at_r": 0.1, "end": {"covering_radius": radius, "spread": 0.1}} for radius in radii]
    cut_off = {**NUMBERS, "best_map_at_r": 0.9, "end": {"covering_radius": 0.0, "spread": 0.1}}
    found = ccp_concept.shown([[NUMBERS]], [[*ended, cut_off]])
    assert found["covering_radius"]["holds"] is holds
    assert not found["map_at_r"]["holds"]


def test_claims_are_measured_on_equal_seeds_and_a_second_call_finds_them_stored(
    capsys, monkeypatch, tmp_path: Path
) -> None:
    images, store = draw_images(tmp_path / "images", n_classes=48, n_images=3), tmp_path / "store.db"
    settings = ("--set", "max_steps=2", "--set", "evaluate_every_steps=1", "--set", "n_folds=2")
    arguments = ("mini", images, "--runs", 2, "--store", store, *settings)
    code, table, found = run_script(claims, capsys, monkeypatch, *arguments)
    assert found["map_at_r"].keys() == set(claims.LABELS.values())
    assert found["map_at_r"]["CCP"] == found["map_at_r"]["one problem"]  # two steps end no problem
    assert (found["mean_problems"], found["holds"]["CCP - one problem"], code) == (1.0, False, 1)
    assert found["protocol"] == "mini@1+"
    made = {fold.id: fold.provenance.created_at for fold in folds_in(store)}
    other = {"contrastive": {"pos_margin": 0.0, "neg_margin": 1.0}}
    asked = suites.command("").parse_args(["--store", str(store), "--executor", "inline", *settings])
    assert len(suites.final_records(other, "mini", str(images), ["n_runs=2"], asked)) == 2 * 2 + 2
    assert run_script(claims, capsys, monkeypatch, *arguments) == (code, table, found)
    assert made.items() <= {fold.id: fold.provenance.created_at for fold in folds_in(store)}.items()
    assert len(folds_in(store)) == len(made) + 2 * 2


def test_a_claim_holds_where_the_interval_of_the_paired_differences_lies_above_zero() -> None:
    flat = {"concatenated": [0.2, 0.4], "separated": [0.2, 0.4]}
    above = {setting: [value + 0.01 for value in values] for setting, values in flat.items()}
    found = {**dict.fromkeys(claims.LABELS.values(), flat), "CCP": above, "HPL": {**above, "separated": [0.3, 0.4]}}
    assert {claim: claims.holds(gained) for claim, gained in claims.gains(found).items()} == {
        "CCP - contrastive": True,
        "CCP - one problem": True,
        "HPL - proxy-anchor": False,
    }
    lines = claims.table(found, problems=3.5).splitlines()
    assert " ".join(lines[3].split()) == "CCP 0.3100 ± 1.2706 0.3100 ± 1.2706 3.50"
    assert " ".join(lines[6].split()) == "CCP - contrastive 0.0100 ± 0.0000 0.0100 ± 0.0000 holds"
    assert lines[8].endswith("does not hold")
    assert not claims.holds({"concatenated": [0.1], "separated": [0.1]})  # one run has no interval


def test_pixels_and_the_untrained_network_lie_in_the_published_range_and_two_steps_do_not_do(
    capsys, monkeypatch, tmp_path: Path
) -> None:
    arguments = ("--seeds", 1, "--store", tmp_path / "store.db", "--set", "max_steps=2")
    code, table, found = run_script(shapes_losses, capsys, monkeypatch, *arguments)
    assert code == 1
    assert found["outside"] == [
        f"{name} {of}" for name in ("norm-softmax", "contrastive-hadsell") for of in ("R@1", "MAP@R")
    ]
    assert table.splitlines()[1].startswith("pixels               R@1      0.2")
    with Store.open(str(tmp_path / "store.db")) as store:
        assert {record.identity.protocol["values"]["embedding"]["dim"] for record in store.records()} == {32}


def test_a_figure_outside_its_range_and_an_order_that_breaks_are_seen() -> None:
    found = {
        name: dict(zip(shapes_losses.METRICS, map(list, ranges), strict=True))
        for name, ranges in shapes_losses.PUBLISHED.items()
    }
    assert shapes_losses.outside(found) == []
    assert shapes_losses.in_order(found)
    found["norm-softmax"] = {"precision_at_1": [0.45, 0.56], "map_at_r": [0.2, 0.37]}
    assert shapes_losses.outside(found) == ["norm-softmax R@1", "norm-softmax MAP@R"]
    assert not shapes_losses.in_order(found)
