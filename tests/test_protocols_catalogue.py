"""The published protocols hold the papers' values, and their fingerprints never move."""

import json
from dataclasses import FrozenInstanceError, asdict, dataclass, fields, is_dataclass, replace

import pytest

from protocols.catalogue import (
    CATALOGUE,
    CCP_ABLATION_V1,
    CCP_V1,
    CONVENTIONAL_BNINCEPTION_V1,
    CONVENTIONAL_RESNET50_V1,
    LITE_V1,
    MINI_V1,
    MLRC_BATCH256_V1,
    MLRC_V1,
    PUBLISHED,
    protocol_named,
)
from protocols.derive import derivation, derive, settable_fields
from protocols.errors import ProtocolError
from protocols.spec import Batch, Cadence, Protocol, _plain

# A published protocol never changes. If a digest here moves, make a new version instead of changing this table.
DIGESTS = {
    "mlrc@1": "16a616c86ec0",
    "mlrc-batch256@1": "c059e1028c6c",
    "ccp@1": "e61a088e77d4",
    "ccp-ablation@1": "33a5d42ee63c",
    "conventional-bninception@1": "ea61f69a877a",
    "conventional-resnet50@1": "1fd76064db91",
    "lite@1": "1c87dd5429ca",
    "mini@1": "c34d1f58254c",
    "demo@1": "2d4a094267cf",
}


def test_the_digest_of_each_published_protocol_is_pinned() -> None:
    assert {protocol.title: protocol.digest() for protocol in PUBLISHED} == DIGESTS


def test_mlrc_holds_the_values_of_the_paper() -> None:
    assert (MLRC_V1.trunk.name, MLRC_V1.trunk.batchnorm, MLRC_V1.embedding.dim) == ("bn-inception", "frozen", 128)
    assert MLRC_V1.trunk.input.channels == "BGR"
    assert MLRC_V1.trunk.input.mean == (104.0, 117.0, 128.0)
    assert (MLRC_V1.transforms.resize_px, MLRC_V1.transforms.crop_px) == (256, 227)
    assert MLRC_V1.transforms.crop_area == (0.16, 1.0)
    assert MLRC_V1.transforms.crop_aspect == (3 / 4, 4 / 3)
    assert asdict(MLRC_V1.batch) == {"size": 32, "pair_samples_per_class": 4, "class_samples_per_class": 1}
    optimiser = MLRC_V1.optimiser
    assert (optimiser.name, optimiser.lr, optimiser.weight_decay, optimiser.momentum) == ("rmsprop", 1e-6, 1e-4, 0.9)
    assert MLRC_V1.schedule.max_steps == 1000 * 100
    cadences = {name: (item.evaluate_every_steps, item.patience) for name, item in MLRC_V1.schedule.by_dataset}
    assert cadences == {"cub200": (200, 900), "cars196": (500, 1400), "sop": (2000, 3900)}
    assert (MLRC_V1.folds.kind, MLRC_V1.folds.n_folds) == ("wrapped", 4)
    assert (MLRC_V1.search.n_trials, MLRC_V1.finals.n_runs) == (50, 10)


def test_the_others_differ_where_the_sources_say() -> None:
    assert MLRC_BATCH256_V1.batch == replace(MLRC_V1.batch, size=256)
    assert (CCP_V1.optimiser.name, CCP_V1.optimiser.lr, CCP_V1.optimiser.betas) == ("adam", 1e-5, (0.9, 0.99))
    assert (CCP_V1.embedding.normalisation, CCP_V1.folds.kind) == ("lipschitz", "balanced")
    assert CCP_V1.schedule.cadence_for("cub200") == Cadence(
        evaluate_every_steps=25, patience=60, patience_unit="evaluations"
    )
    assert CCP_V1.schedule.cadence_for("inshop").evaluate_every_steps == 250
    assert (LITE_V1.optimiser.name, LITE_V1.optimiser.lr) == ("adam", 1e-5)
    assert LITE_V1.trunk.input.mean == (127.0, 127.0, 127.0)
    assert LITE_V1.trunk.input.std == (128.0, 128.0, 128.0)
    assert (MINI_V1.optimiser.lr, MINI_V1.schedule.max_steps) == (3e-3, 1000)
    assert MINI_V1.schedule.cadence == Cadence(evaluate_every_steps=50, patience=5, patience_unit="evaluations")


def test_the_conventional_protocols_are_one_wide_model_each_with_recall_by_data_set() -> None:
    for protocol, trunk, size in (
        (CONVENTIONAL_BNINCEPTION_V1, "bn-inception", 128),
        (CONVENTIONAL_RESNET50_V1, "resnet50", 96),
    ):
        assert (protocol.trunk.name, protocol.trunk.pooling) == (trunk, "average+max")
        assert protocol.embedding.dim == 512
        assert asdict(protocol.batch) == {"size": size, "pair_samples_per_class": 4, "class_samples_per_class": 4}
        assert asdict(protocol.folds) == {"n_folds": 1, "kind": "holdout", "holdout_parts": 4}
        assert "3/4 of the train classes" in protocol.purpose
        recall_at_for = protocol.evaluation.recall_at_for
        assert recall_at_for("cub200") == recall_at_for("cars196") == recall_at_for("") == (1, 2, 4, 8)
        assert recall_at_for("sop") == (1, 10, 100, 1000)
        assert recall_at_for("inshop") == (1, 10, 20, 30)
        assert protocol.optimiser == CCP_V1.optimiser
        assert protocol.schedule == CCP_V1.schedule
    resnet = CONVENTIONAL_RESNET50_V1.trunk
    assert (resnet.input.channels, resnet.input.scale, resnet.weights) == ("RGB", 1.0, "imagenet:0676ba61")
    assert (resnet.input.mean, resnet.input.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def test_the_ablation_protocol_is_ccp_cut_in_three() -> None:
    wanted = replace(CCP_V1.folds, n_folds=1, kind="holdout", holdout_parts=3)
    changed_values = {"name": "ccp-ablation", "purpose": CCP_ABLATION_V1.purpose, "folds": wanted}
    assert replace(CCP_V1, **changed_values) == CCP_ABLATION_V1


def test_only_protocols_of_the_older_evaluation_report_recall() -> None:
    assert {protocol.name for protocol in PUBLISHED if protocol.evaluation.recall_at} == {
        "conventional-bninception",
        "conventional-resnet50",
    }


def test_a_protocol_is_found_by_name_and_by_title_and_a_misspelt_one_is_offered() -> None:
    assert protocol_named("mini") is protocol_named("mini@1") is MINI_V1
    with pytest.raises(ProtocolError, match="Did you mean 'mlrc'"):
        protocol_named("mlcr")


def test_no_value_can_be_changed_in_place() -> None:
    with pytest.raises(FrozenInstanceError):
        MINI_V1.schedule.max_steps = 5  # type: ignore[misc]


def test_values_survive_json() -> None:
    for protocol in PUBLISHED:
        assert json.loads(json.dumps(protocol.values(), allow_nan=False)) == protocol.values()


@pytest.mark.parametrize("path", settable_fields(MINI_V1))
def test_every_field_moves_the_digest(path: str) -> None:
    assert changed(MINI_V1, path.split(".")).digest() != MINI_V1.digest(), path


FIRST_ITEMS = {
    "by_dataset": (("cub200", MINI_V1.schedule.cadence),),
    "recall_at": (1, 2),
    "recall_at_by_dataset": (("cub200", (1, 2)),),
}


def changed(value, path):
    """`value` with one field set to something else."""
    head, *rest = path
    found = getattr(value, head)
    if rest:
        new = changed(found, rest)
    elif isinstance(found, bool):
        new = not found
    elif isinstance(found, int | float):
        new = found - 1 if head == "crop_px" else found + 1  # a crop may not outgrow the image
    elif isinstance(found, tuple):
        new = changed_tuple(found) if found else FIRST_ITEMS[head]
    else:
        new = f"{found}x"
    return replace(value, **{head: new})


def changed_tuple(found):
    """Other items of the same kinds that a protocol may still hold."""
    return found[::-1] if isinstance(found[0], str) else tuple(0.5 * item + 0.25 for item in found)


def test_prose_does_not_move_the_digest() -> None:
    assert replace(MINI_V1, purpose="other words", source="elsewhere").digest() == MINI_V1.digest()


def test_a_field_added_later_is_left_out_while_it_holds_its_default() -> None:
    @dataclass(frozen=True, kw_only=True)
    class LaterBatch(Batch):
        new: int = 3

    old = Batch(size=1, pair_samples_per_class=1, class_samples_per_class=1)
    later = LaterBatch(**asdict(old))
    assert _plain(later) == _plain(old)
    assert _plain(replace(later, new=4)) == {**_plain(old), "new": 4}


def test_no_field_of_the_first_versions_has_a_default() -> None:
    def defaults(value):
        for item in fields(value):
            if item.default.__class__.__name__ != "_MISSING_TYPE":
                yield item.name
            if is_dataclass(getattr(value, item.name)):
                yield from defaults(getattr(value, item.name))

    assert set(defaults(MLRC_V1)) == {"holdout_parts", "metrics_version", "recall_at", "recall_at_by_dataset"}
    assert not [name for name in defaults(MLRC_V1) if f'"{name}"' in json.dumps(MLRC_V1.values())]


def test_a_derived_protocol_has_its_own_name_and_digest() -> None:
    derived = derive(MINI_V1, ["schedule.max_steps=120", "search.sampler=tpe", "crop_area=[0.5, 1]"])
    assert derived.title == "mini@1+"
    assert derived.digest() != MINI_V1.digest()
    assert (derived.schedule.max_steps, derived.search.sampler, derived.transforms.crop_area) == (
        120,
        "tpe",
        (0.5, 1.0),
    )
    wanted = 'transforms.crop_area = [0.5, 1.0]; schedule.max_steps = 120; search.sampler = "tpe"'
    assert derivation(derived.values()) == wanted


@pytest.mark.parametrize(
    "settings",
    [
        ["n_folds=1", "kind=holdout", "holdout_parts=3"],
        ["holdout_parts=3", "kind=holdout", "n_folds=1"],
        ["resize_px=20", "crop_px=16"],
        ["crop_px=64", "resize_px=64"],
    ],
)
def test_values_that_need_each_other_may_be_set_in_any_order(settings: list[str]) -> None:
    assert derive(MINI_V1, settings) == derive(MINI_V1, settings[::-1]) != MINI_V1


def test_recall_may_be_set_by_hand() -> None:
    derived = derive(MINI_V1, ["recall_at=[1, 5]", 'recall_at_by_dataset=[["sop", [1, 10]]]'])
    assert (derived.evaluation.recall_at_for("cub200"), derived.evaluation.recall_at_for("sop")) == ((1, 5), (1, 10))


@pytest.mark.parametrize("field", ["margn", "margin", "alpha", "batch_weight"])
def test_a_word_that_is_like_no_field_is_offered_none(field: str) -> None:
    with pytest.raises(ProtocolError, match="mlrc protocols mini lists them") as caught:
        derive(MINI_V1, [f"{field}=3"])
    assert "Did you mean" not in str(caught.value)


def test_setting_a_field_to_what_it_is_derives_nothing() -> None:
    assert derive(MINI_V1, ["max_steps=1000"]) is MINI_V1
    assert derivation(MINI_V1.values()) == ""


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("max_steps", "expected field=value"),
        ("max_step=3", "Did you mean 'schedule.max_steps'"),
        ("lr=fast", "expected float"),
        ("n_trials=2.5", "expected int"),
        ("sampler=gpp", "expected one of gp, tpe, random"),
        ("n_trials=true", "expected int"),
        ("crop_area=[1]", "expected"),
        ("name=other", "Give the whole path"),
        ("version=2", "no such field"),
        ("n_trials=0", "must be from 1 to 100,000"),
        ("n_runs=-1", "must be from 1 to 1,000"),
        ("n_folds=1", "must be from 2 to 1,000"),
        ("weight_decay=-1", "must be from 0 to"),
        ("momentum=NaN", "must be from 0 to 1"),
        ("crop_area=[2, 1]", "must be from"),
        ("crop_area=[0.5, 0.2]", "must be from 0.5 to 1"),
        ("flip_probability=7", "must be from 0 to 1"),
        ('metrics=["map_at_r"]', "it must be"),
        ("crop_px=64", "larger than"),
        ("optimiser.lr=0", "must be positive"),
        ("kind=holdout", "n_folds is 4 and folds.holdout_parts 0; .*it wants 1 and at least 2"),
        ("recall_at=[0]", r"recall_at\[0\] is 0; it must be at least 1"),
        ("recall_at=[1, 4, 2]", r"recall_at\[2\] is 2; it must be at least 5"),
        ("recall_at=[1, 1]", r"recall_at\[1\] is 1; it must be at least 2"),
        ("recall_at=4", "expected"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_in_one_line(setting: str, words: str) -> None:
    with pytest.raises(ProtocolError, match=words) as caught:
        derive(MINI_V1, [setting])
    assert "\n" not in str(caught.value)


def test_the_catalogue_is_keyed_by_title() -> None:
    assert all(isinstance(protocol, Protocol) and title == protocol.title for title, protocol in CATALOGUE.items())
