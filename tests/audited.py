"""Jobs under the audit: one of a bench, and what its record says where a part was broken on purpose."""

from tiny import MARGINS

from benchmark.bench import Bench
from benchmark.methods.registry import method_entry
from benchmark.training.training import run_fold
from results.record import FoldRecord, from_json, to_json


def run(bench: Bench, run: int = 0) -> FoldRecord:
    record = run_fold(bench.job(method_entry("contrastive"), MARGINS, run, 0), bench)
    assert from_json(to_json(record)) == record
    return record


def assert_audit_failed(record: FoldRecord, check: str, words: str = "") -> None:
    assert (record.outcome, record.reason) == ("failed", "audit")
    assert str(record.message).startswith(f"audit failed, {check}: ")
    assert words in str(record.message)
    assert (record.validation, record.test) == (None, None)
    assert check not in {item.name for item in record.audit}  # only what passed is listed
