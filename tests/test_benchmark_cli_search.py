"""The options of a search on the command line: refused in one line where they cannot be kept, and shown by status."""

from pathlib import Path

import pytest
from conftest import Command, folds_in, lines_of, options


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["contrastive", "--sampler", "grid"], "contrastive: --sampler grid wants a finite search space; pos_margin, "),
        (["contrastive", "--sampler", "best"], "'best' is not one of 'gp', 'tpe', 'random', 'grid'."),
        (["contrastive", "--parallel-trials", "0"], "--parallel-trials is 0; it must be at least 1."),
        (["contrastive", "--pruning"], "--pruning compares 3 folds before it spares one, and mini@1+ has 2. "),
        (["contrastive", "--enqueue", "mine"], "'mine' is not one of 'published'."),
        (["contrastive", "--published", "mlrc:sop", "--fork"], "--published searches nothing: leave --sampler, "),
    ],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, list) else "",
)
def test_rules_that_cannot_be_kept_are_refused_before_anything_is_made(
    mlrc: Command, suite: list[str], store: Path, given: list[str], said: str
) -> None:
    assert said in mlrc("run", *given, *suite).refusal()
    assert not store.exists()


def test_a_grid_with_published_values_first_is_searched_and_refused_by_other_rules(
    mlrc: Command, images: Path, store: Path
) -> None:
    suite = options(images, store, "n_trials=3", "n_startup_trials=3", "max_steps=1")
    rules = ["--sampler", "grid", "--parallel-trials", "2", "--enqueue", "published"]
    done = mlrc("search", "fastap", *suite, *rules)
    assert done.code == 0, done.err
    said = lines_of(done)
    assert "fastap: mlrc:cub200-batch256 is not tried first: num_bins = 86 outside of the search space." in said
    assert "fastap: its grid has 31 points; 3 of them are tried, spread over all." in said
    assert [line.partition(":")[0] for line in said if line.startswith("fastap: trial ")] == ["fastap"] * 3
    bins = {record.identity.hyperparameters["num_bins"] for record in folds_in(store)}
    assert bins == {17, 27, 16}
    (line,) = mlrc("status", "--store", store, "--json").json
    assert line["rules"] == "grid, 2 trials at once, 3 published first"
    refused = mlrc("search", "fastap", *suite)
    assert refused.code == 4
    assert "began with other rules (grid, 2 trials at once, 3 published first then, none now)" in refused.err
    assert "this is a random search" in refused.err
    assert mlrc("search", "fastap", *suite, *rules).err.splitlines()[-1].endswith("nothing left to run.")
    assert len(folds_in(store)) == 3 * 2
