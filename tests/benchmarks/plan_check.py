"""Whether `mlrc plan` tells the hours of a real run: within 25 % of them.

A suite of contrastive and norm-softmax under `mini` on the shifted shapes with two workers, planned and run. No job
stops early, as no plan can know when one will. The clock runs from the first worker's start to the last record. The
machine is calibrated before and after the run and the mean counts, so that a load that changes disturbs both sides;
`calibrations` tells how much it did.

Run `python tests/benchmarks/plan_check.py`: one JSON line, exit code 1 if the bound is missed. About two minutes.
"""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from rich.console import Console

from benchmark.options import SuiteOptions
from benchmark.oversight.calibration import measured_costs
from benchmark.oversight.plan import job_steps, plan
from benchmark.oversight.workload import left_of
from benchmark.workshop import Suite, assemble, run_suite
from results.store import Store

BOUND = 0.25  # of the real seconds
STEPS = 200
OPTIONS = SuiteOptions(
    ["contrastive", "norm-softmax", "untrained"],
    settings=[
        f"max_steps={STEPS}",
        f"cadence.patience={STEPS}",
        *("n_trials=3", "n_startup_trials=2", "n_runs=2"),
    ],
    workers=2,
)


def planned_s(suite: Suite) -> float:
    """Seconds of the suite from an empty store, by a calibration made now."""
    costs = measured_costs(suite.entries, suite.bench, suite.workers)
    left = [left_of(entry, suite.bench, None, None) for entry in suite.entries]
    planned = plan(suite.bench, left, costs, job_steps(suite.bench, None, STEPS), suite.workers)
    return next(3600 * line["hours"] for line in planned["by_workers"] if line["workers"] == suite.workers)


def main() -> int:
    """Plan, run, compare."""
    with tempfile.TemporaryDirectory() as folder:
        suite = assemble(replace(OPTIONS, store=str(Path(folder) / "suite.db")))
        before_s = planned_s(suite)
        with Store.open(str(Path(folder) / "suite.db")) as store:
            began = perf_counter()
            problems = run_suite(suite, store, ("search", "finals"), Console(quiet=True))
            real_s = perf_counter() - began
            assert not problems, problems
            left = [left_of(entry, suite.bench, store, None).n_jobs for entry in suite.entries]
            assert not sum(left), "the plan and the run disagree about what there is to do"
        after_s = planned_s(suite)
    ratio = (before_s + after_s) / 2 / real_s
    report = {
        "benchmark": "plan_check",
        "ratio": round(ratio, 3),
        "within": BOUND,
        "real_s": round(real_s, 1),
        "calibrations": [round(before_s, 1), round(after_s, 1)],
    }
    print(json.dumps(report))
    return int(abs(ratio - 1) > BOUND)


if __name__ == "__main__":
    sys.exit(main())
