"""Published hyper-parameters: the code's are the papers', and a command runs with them instead of a search."""

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Command, folds_in
from tiny import tiny_bench

from benchmark.errors import BenchmarkError
from benchmark.methods.classes import middle_of
from benchmark.methods.entry import W_LR
from benchmark.methods.registry import METHODS, build_method
from benchmark.published import published_values
from reports.frame import runs_frame
from reports.tabulation import result_tables
from results.reference.hyperparameters import published_hyperparameters, published_keys
from results.reference.published import published_values as published_figures
from results.store import Store


def test_every_published_value_of_the_code_is_a_row_of_the_table_and_every_row_is_in_the_code() -> None:
    in_code = {(name, key): dict(values) for name, entry in METHODS.items() for key, values in entry.published.items()}
    assert in_code == published_hyperparameters()


def test_a_paper_has_four_settings_in_its_variants_and_each_reality_check_method_all_of_its_own() -> None:
    keys = {key for _, key in published_hyperparameters()}
    plain = {f"ccp:{dataset}" for dataset in ("cub200", "cars196", "sop", "inshop")}
    reality_check = {"mlrc:cub200", "mlrc:cars196", "mlrc:sop", "mlrc:cub200-batch256"}
    assert keys == reality_check | plain | {f"{key}-{variant}" for key in plain for variant in ("s", "l", "code")}
    methods = {method for method, key in published_hyperparameters() if key.startswith("mlrc:")}
    assert len(methods) == 14
    assert all((method, key) in published_hyperparameters() for method in methods for key in reality_check)


def test_figures_known_by_heart_are_in_the_table() -> None:
    values = published_hyperparameters()
    assert values["arcface", "mlrc:cars196"] == {W_LR: 7.39e-06, "margin": 20.52, "scale": 49.5}
    assert values["fastap", "mlrc:cub200-batch256"] == {"num_bins": 86}
    assert "reg_weight" not in values["soft-triple", "mlrc:sop"]
    assert values["proxy-anchor", "ccp:sop"] == {"margin": 0.1, "alpha": 32}
    assert values["ccp-contrastive", "ccp:sop"] == {
        **{"lambda": 2e-4, "n_proxies": 4, "pool_size": 7, "batch_weight": 0},
        **{"pos_margin": 0.2858, "neg_margin": 0.513},
    }
    assert values["soft-triple-s", "ccp:sop"] == {"la": 100, "margin": 0.3145}
    assert values["soft-triple-s", "ccp:inshop"] == {"la": 20, "margin": 0.01}


def test_a_method_has_as_many_centres_a_class_as_the_published_figures_that_bear_its_name() -> None:
    noted = {(value.method, value.note) for value in published_figures() if "per class" in value.note}
    assert {name for name, _ in noted} == {"soft-triple", "soft-triple-s"}
    for name, note in noted:
        (centres,) = build_method(METHODS[name], 6, 8, middle_of(METHODS[name].space(6))).parameters()
        assert note.partition(" ")[0] == str(centres.numel() // (6 * 8))


def test_values_are_told_by_themselves_where_the_protocol_fixes_a_learning_rate_too() -> None:
    assert published_keys("fastap", {"num_bins": 17}) == ["mlrc:cub200"]
    assert published_keys("triplet", {"margin": 0.0451}) == ["mlrc:sop", "ccp:inshop", "ccp:sop"]
    assert published_keys("norm-softmax", {"temperature": 0.063, W_LR: 0.000546}) == ["mlrc:sop"]
    assert published_keys("norm-softmax", {"temperature": 0.063}) == ["mlrc:sop"]
    assert published_keys("norm-softmax", {"temperature": 0.063, W_LR: 0.1}) == []
    assert published_keys("contrastive", {"pos_margin": -0.2}) == []
    assert published_keys("n-pairs", {}) == []


def test_the_learning_rate_of_own_weights_is_the_published_one_unless_the_protocol_fixes_it(tmp_path: Path) -> None:
    searched, fixed = tiny_bench(tmp_path), tiny_bench(tmp_path, "optimiser.proxy_lr_factor=100.0")
    entry = METHODS["norm-softmax"]
    assert published_values(entry, "mlrc:sop", searched) == {"temperature": 0.063, W_LR: 0.000546}
    assert published_values(entry, "mlrc:sop", fixed) == {"temperature": 0.063}
    assert published_values(METHODS["proxy-anchor"], "ccp:sop", fixed) == {"margin": 0.1, "alpha": 32.0}
    with pytest.raises(BenchmarkError, match=r"proxy-anchor: ccp:sop has no w_lr, .* demo@1\+ does not"):
        published_values(METHODS["proxy-anchor"], "ccp:sop", searched)


def test_a_data_set_may_be_named_in_short_and_a_method_without_a_space_needs_no_values(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    assert published_values(METHODS["ms"], "mlrc:cub", bench) == METHODS["ms"].published["mlrc:cub200"]
    assert published_values(METHODS["ms"], "ccp:cars", bench) == METHODS["ms"].published["ccp:cars196"]
    assert published_values(METHODS["untrained"], "mlrc:cub", bench) == {}


@pytest.mark.parametrize(
    ("method", "short", "key"),
    [
        ("ms", "mlrc:cub-batch256", "mlrc:cub200-batch256"),
        ("xbm-contrastive", "ccp:cub-l", "ccp:cub200-l"),
        ("xbm-contrastive-cosine", "ccp:cars-s", "ccp:cars196-s"),
        ("ccp-ms", "ccp:cub-code", "ccp:cub200-code"),
    ],
)
def test_a_variant_of_a_data_set_may_be_named_in_short_too(tmp_path: Path, method: str, short: str, key: str) -> None:
    assert published_values(METHODS[method], short, tiny_bench(tmp_path)) == METHODS[method].published[key]


def test_the_small_setting_of_ccp_and_that_of_its_code_are_run_as_they_are_named(
    mlrc: Command, suite: list[str], store: Path
) -> None:
    for key in ("ccp:cub-s", "ccp:cub-code"):
        assert mlrc("run", "ccp-contrastive", *suite, "--published", key).code == 0
    used = [fold.identity.hyperparameters for fold in folds_in(store)]
    assert {(values["n_proxies"], values["pool_size"], values["batch_weight"]) for values in used} == {
        (1, 12, 0.0),
        (8, 12, 0.1),
    }
    assert [key for values in (used[0], used[-1]) for key in published_keys("ccp-contrastive", values)] == [
        "ccp:cub200-s",
        "ccp:cub200-code",
    ]


def test_run_with_published_values_searches_nothing_and_says_so_below_the_table(
    mlrc: Command, suite: list[str], store: Path
) -> None:
    done = mlrc("run", "contrastive", "norm-softmax", "untrained", *suite, "--published", "mlrc:cub200")
    assert done.code == 0
    text = " ".join(done.out.split())
    assert "run with published values: contrastive (mlrc:cub200), norm-softmax (mlrc:cub200)." in text
    folds = folds_in(store)
    assert {fold.identity.purpose for fold in folds} == {"final"}
    for name in ("contrastive", "norm-softmax"):
        used = [fold.identity.hyperparameters for fold in folds if fold.identity.method == name]
        assert used == 2 * [METHODS[name].published["mlrc:cub200"]]
    again = mlrc("finals", "norm-softmax", "contrastive", *suite, "--published", "mlrc:cub", "--json")
    assert again.code == 0
    assert len(folds_in(store)) == len(folds)
    assert "published values: contrastive (mlrc:cub200)" in " ".join(mlrc("report", "--store", store).out.split())


def test_published_values_and_a_search_of_the_same_method_are_two_rows(
    mlrc: Command, suite: list[str], store: Path
) -> None:
    mlrc("run", "triplet", *suite, "--json")
    (table,) = mlrc("run", "triplet", *suite, "--published", "ccp:sop", "--json").json
    labels = [row["method"] for row in table["rows"]]
    assert len(labels) == 2
    assert "triplet (margin=0.0451)" in labels


def test_a_search_that_found_a_published_value_by_itself_is_not_called_unsearched(
    mlrc: Command, suite: list[str], store: Path
) -> None:
    mlrc("finals", "fastap", *suite, "--published", "mlrc:sop", "--json")
    with Store.open(str(store)) as opened:
        records = opened.records()
    (table,) = result_tables(runs_frame(records))
    assert table.published == ("fastap (mlrc:sop)",)
    trial = next(record for record in records if record.identity.run)
    searched = replace(trial, id="0" * 16, identity=replace(trial.identity, purpose="search", run=0), test=None)
    (table,) = result_tables(runs_frame([*records, searched]))
    assert table.published == ()


def test_values_that_no_paper_has_are_refused_with_those_that_it_has(mlrc: Command, suite: list[str]) -> None:
    refused = mlrc("run", "untrained", "ms", *suite, "--published", "mlrc:sup").refusal()
    assert refused == (
        "ms: no published values 'mlrc:sup'. Did you mean 'mlrc:sop'? Published: mlrc:cub200, mlrc:cars196, mlrc:sop, "
        "mlrc:cub200-batch256, ccp:cub200, ccp:cars196, ccp:sop, ccp:inshop."
    )
    refused = mlrc("finals", "lifted", *suite, "--published", "mlrc:cub200").refusal()
    assert refused == "lifted: no published values 'mlrc:cub200'. Published: none; search it, or leave the method out."
    assert mlrc("search", "ms", *suite, "--published", "mlrc:cub200").refusal().startswith("No such option")
