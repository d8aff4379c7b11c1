"""Records as JSON: what goes in comes out, and nothing else goes in."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from results.errors import ResultsError
from results.record import Check, FoldRecord, Identity, Provenance, Record, RunRecord, Validation, from_json, to_json

IDENTITY = Identity(
    protocol={
        "title": "mini@1",
        "digest": "0123456789ab",
        "values": {"evaluation": {"metrics": ["precision_at_1", "map_at_r"]}, "crop_area": [0.16, 1.0]},
    },
    dataset={"name": "Vögel", "content_hash": "ab12", "n_classes": 36, "n_images": 360},
    split={"kind": "wrapped", "digest": "cd34"},
    method="contrastive",
    method_code="",
    hyperparameters={"pos_margin": 0.25, "n_proxies": 3, "squared": False, "mining": "hard"},
    purpose="final",
    run=1,
)
PROVENANCE = Provenance(
    created_at="2020-08-23T12:00:00+00:00",
    versions={"python": "3.11.7", "torch": "2.4.0"},
    device="cpu",
    threads=1,
    code_revision="0.1.0",
    trunk_weights="random",
)
FOLD = FoldRecord(
    id="0011223344556677",
    identity=IDENTITY,
    fold=2,
    seed=7,
    outcome="done",
    curve=(Validation(step=0, map_at_r=0.1, loss=None), Validation(step=50, map_at_r=0.3, loss=1.5)),
    best_step=50,
    n_steps=100,
    n_images_seen=3200,
    validation={"map_at_r": 0.3},
    test={"precision_at_1": 0.5, "map_at_r": 0.25},
    evaluation_audit={"queries": 180, "tied": None},
    audit=(Check(name="batch-norm buffers unchanged", passed=True, detail="no batch norm"),),
    seconds={"train": 12.5},
    peak_memory_bytes=10**9,
    provenance=PROVENANCE,
)
RUN = RunRecord(
    id="8899aabbccddeeff",
    identity=IDENTITY,
    members=("a", "b", "c", "d"),
    test={"precision_at_1": 0.6, "map_at_r": 0.35},
    embedding_dim=512,
    evaluation_audit={},
    seconds={},
    provenance=PROVENANCE,
)
FAILED = replace(FOLD, outcome="failed", reason="collapsed", message="all embeddings are equal", test=None)


def changed(record: Record, path: str, value: Any) -> str:
    """The record's JSON with one value put at a dotted path, or taken away where the value is `...`."""
    tree = json.loads(to_json(record))
    place = tree
    *parents, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part in parents:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(tree)


@pytest.mark.parametrize("record", [FOLD, FAILED, RUN], ids=["fold", "failed", "run"])
def test_a_record_read_back_is_equal_and_writes_the_same_text(record: Record) -> None:
    text = to_json(record)
    assert from_json(text) == record
    assert to_json(from_json(text)) == text
    assert "\n" not in text
    assert list(json.loads(text)) == sorted(json.loads(text))


def test_types_survive_the_way_out_and_back() -> None:
    back = from_json(to_json(FOLD)).identity.hyperparameters
    assert {name: type(value) for name, value in back.items()} == {
        "pos_margin": float,
        "n_proxies": int,
        "squared": bool,
        "mining": str,
    }


def test_numpy_scalars_become_python_numbers() -> None:
    with_numpy = replace(
        FOLD,
        n_steps=np.int64(100),
        validation={"map_at_r": np.float32(0.3)},
        evaluation_audit={"queries": np.int64(180), "shares": (np.float64(0.5), np.bool_(True))},
    )
    back = from_json(to_json(with_numpy))
    assert isinstance(back, FoldRecord)
    assert type(back.n_steps) is int
    assert back.validation == {"map_at_r": float(np.float32(0.3))}
    assert back.evaluation_audit == {"queries": 180, "shares": [0.5, True]}


def test_a_whole_number_in_a_float_field_is_read_as_a_float() -> None:
    text = changed(FOLD, "test.map_at_r", 1)
    back = from_json(text)
    assert back.test is not None
    assert type(back.test["map_at_r"]) is float


@pytest.mark.parametrize(
    ("broken", "path"),
    [
        (replace(FOLD, curve=(*FOLD.curve, Validation(step=100, map_at_r=0.2, loss=float("nan")))), "curve[2].loss"),
        (replace(FOLD, test={"precision_at_1": np.float32("inf"), "map_at_r": 0.1}), "test.precision_at_1"),
        (replace(FOLD, method_state={"radii": [1.0, float("-inf")]}), "method_state.radii[1]"),
        (replace(RUN, seconds={"evaluate": float("nan")}), "seconds.evaluate"),
    ],
)
def test_a_number_that_is_not_finite_is_refused_with_its_path(broken: Record, path: str) -> None:
    with pytest.raises(ResultsError, match="wanted a finite number") as caught:
        to_json(broken)
    assert f"{path}: found" in str(caught.value)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_refused_when_read(number: str) -> None:
    text = to_json(FOLD).replace('"train":12.5', f'"train":{number}')
    with pytest.raises(ResultsError, match=r"seconds\.train: found (nan|inf), wanted a finite number"):
        from_json(text)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("seconds", ..., "seconds: missing field"),
        ("identity.split", ..., "identity.split: missing field"),
        ("curve.1.step", ..., r"curve\[1\].step: missing field"),
        ("peak_memory", 5, "unknown field 'peak_memory'. Did you mean 'peak_memory_bytes'"),
        ("audit.0.passd", True, r"audit\[0\]: unknown field 'passd'. Did you mean 'passed'"),
        ("n_steps", 1.5, "n_steps: found 1.5, wanted a whole number"),
        ("n_steps", True, "n_steps: found True, wanted a whole number"),
        ("best_step", "50", "best_step: found '50', wanted a whole number"),
        ("fold", None, "fold: found None, wanted a whole number"),
        ("curve", {}, "curve: found {}, wanted a list"),
        ("outcome", "fine", "outcome: found 'fine', wanted one of done, failed"),
        ("test.map_at_r", 25.0, r"test.map_at_r: found 25.0, wanted a fraction in \[0, 1\]"),
        ("curve.0.map_at_r", -0.1, r"curve\[0\].map_at_r: found -0.1, wanted a fraction"),
        ("identity.hyperparameters.pos_margin", [1], "identity.hyperparameters.pos_margin: found"),
        ("identity.protocol.digest", ..., r"identity.protocol: found .*, wanted an object with digest \(str\)"),
        ("identity.dataset.n_images", "360", r"wanted an object with n_images \(int\)"),
        ("provenance.created_at", "2020-08-23", "provenance.created_at: found '2020-08-23', wanted a UTC time"),
        ("provenance.created_at", "2020-08-23T12:00:00+02:00", "wanted a UTC time"),
        ("test", None, "test: precision_at_1, map_at_r missing"),
        ("test.precision_at_1", ..., "test: precision_at_1 missing"),
        ("reason", "collapsed", "reason: found 'collapsed', wanted none"),
        ("schema", 2, "record schema 2; this code reads up to 1. Update the package."),
        ("schema", ..., "found schema None"),
        ("kind", "epoch", 'wanted a JSON object whose "kind"'),
        ("kind", "run", "unknown field"),
        ("seconds.train", 10**400, "too large"),
    ],
)
def test_a_hole_or_a_wrong_value_is_refused_in_one_line(path: str, value: Any, message: str) -> None:
    with pytest.raises(ResultsError, match=message) as caught:
        from_json(changed(FOLD, path, value))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def with_evaluation(standard_name: str | None, **evaluation: Any) -> Identity:
    dataset = IDENTITY.dataset if standard_name is None else {**IDENTITY.dataset, "standard_name": standard_name}
    values = {"evaluation": {"metrics": ["map_at_r"], **evaluation}}
    return replace(IDENTITY, protocol={**IDENTITY.protocol, "values": values}, dataset=dataset)


RECALLS: dict[str, Any] = {"recall_at": [1, 2], "recall_at_by_dataset": [["sop", [1, 10]]]}


@pytest.mark.parametrize(
    ("who", "metrics"),
    [
        (IDENTITY, ("precision_at_1", "map_at_r")),
        (with_evaluation("sop"), ("map_at_r",)),
        (with_evaluation("sop", **RECALLS), ("map_at_r", "recall_at_1", "recall_at_10")),
        (with_evaluation("cub200", **RECALLS), ("map_at_r", "recall_at_1", "recall_at_2")),
        (with_evaluation(None, **RECALLS), ("map_at_r", "recall_at_1", "recall_at_2")),
        (replace(IDENTITY, protocol={"title": "old@1", "digest": "0" * 12, "values": {}}), ("map_at_r",)),
    ],
)
def test_a_record_knows_the_metrics_that_its_protocol_asks_for(who: Identity, metrics: tuple[str, ...]) -> None:
    assert who.metrics == metrics
    assert from_json(to_json(replace(FOLD, identity=who, test=dict.fromkeys(metrics, 0.5)))).identity == who
    with pytest.raises(ResultsError, match=f"test: {metrics[-1]} missing"):
        to_json(replace(FOLD, identity=who, test=dict.fromkeys(metrics[:-1], 0.5)))


@pytest.mark.parametrize(
    "evaluation", [5, ["map_at_r"], {"metrics": 5}, {"recall_at": 5}, {"recall_at_by_dataset": [1, 2]}]
)
def test_a_protocol_that_lists_no_metrics_is_refused_in_one_line(evaluation: Any) -> None:
    with pytest.raises(ResultsError, match=r"identity\.protocol: found evaluation .*, wanted an object") as caught:
        from_json(changed(FOLD, "identity.protocol.values.evaluation", evaluation))
    assert "\n" not in str(caught.value)


def test_what_was_in_force_is_optional_and_comes_back() -> None:
    told = replace(FOLD, in_force={"optimiser": {"class": "Adam", "groups": [{"lr": 1e-5, "betas": [0.9, 0.99]}]}})
    assert from_json(to_json(told)) == told
    assert from_json(changed(FOLD, "in_force", ...)) == FOLD


def test_what_is_refused_when_read_is_refused_when_written() -> None:
    for broken, message in [
        (replace(FOLD, test=None), "test: precision_at_1, map_at_r missing"),
        (replace(FOLD, identity=replace(IDENTITY, purpose="search"), validation=None), "validation: map_at_r missing"),
        (replace(FAILED, reason=None), "reason: missing"),
        (replace(RUN, test={"precision_at_1": 0.5}), "test: map_at_r missing"),
        (replace(FOLD, validation={"map_at_r": 30.0}), "wanted a fraction"),
        (replace(FOLD, method_state={"net": object()}), "method_state.net: found type object"),
        (replace(FOLD, method_state={3: 1}), "method_state: found the key 3, wanted a text"),
    ]:
        with pytest.raises(ResultsError, match=message):
            to_json(broken)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"fold"', "[" * 100_000, '{"kind": []}'])
def test_a_text_that_is_no_record_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ResultsError, match="not a record") as caught:
        from_json(text)
    assert "\n" not in str(caught.value)
