"""The driver and its claims: what another process took over is left to it."""

from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest
from optuna.storages import RDBStorage
from tiny import tiny_bench

from benchmark.executors.inline import InlineExecutor
from benchmark.jobs import Work
from benchmark.methods.registry import method_entry
from benchmark.suite import Driver
from results.claims import campaign_claim, new_owner
from results.record import Record
from results.store import Store

ENTRY = method_entry("contrastive")
N_RECORDS = 3 * 4 + 2 * 4 + 2  # trials and final runs of four folds, and a concatenation of each run


class TakingOver:
    """A listener that takes the claim after the second record, as another process would after a minute of silence."""

    def __init__(self, store: Store, claim: str) -> None:
        self.store, self.claim, self.other = store, claim, new_owner()
        self.n_fresh, self.problem, self.takes = 0, None, True

    def work_done(self, method: str, work: Work, record: Record, fresh: bool) -> None:
        self.n_fresh += fresh
        if self.takes and self.n_fresh == 2:
            assert self.store.claim(self.claim, self.other, stale_after_s=0.0)

    def waiting(self, method: str, holder: str) -> None: ...

    def method_done(self, method: str, problem: str | None) -> None:
        self.problem = problem


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with Store.open(str(tmp_path / "mlrc.db")) as opened:
        yield opened


def test_a_campaign_that_another_process_took_over_ends_after_its_batch_and_leaves_the_claim(
    tmp_path: Path, store: Store
) -> None:
    bench = tiny_bench(tmp_path, "max_steps=1")
    heard = TakingOver(store, campaign_claim(bench.comparison, ENTRY.name, ENTRY.code))

    def drive() -> dict[str, str]:
        return Driver(bench, store, InlineExecutor(bench), heard).run(
            [ENTRY], RDBStorage(store.url), ("search", "finals")
        )

    problems = drive()
    assert problems == {
        "contrastive": f"{heard.other} took it over from here. The same command waits for it and goes on."
    }
    assert heard.problem == problems["contrastive"]
    assert len(store.records()) == 4  # the folds of the trial that had begun
    assert store.holder(heard.claim) == heard.other
    store.release(heard.claim, heard.other)
    heard.takes = False
    assert drive() == {}
    assert len(store.records()) == heard.n_fresh == N_RECORDS
