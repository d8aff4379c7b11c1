"""Baselines: what methods reached once, every run of it, in one small file that is kept beside their code.

A check runs the same jobs again and compares run by run, so the spread is the runs themselves. The file is strict JSON
with a schema number, names its protocol in full, and is read as a stranger's would be.
"""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from results.comparison import Comparison
from results.errors import ResultsError
from results.exchange.fingerprints import protocol_digest
from results.exchange.untrusted import read_untrusted
from results.record import Metrics, Value
from results.repeats import n_final_runs
from results.strict import UtcTime, check_schema, has, plain, read
from results.whole_file import write_whole

FORMAT, SCHEMA = "mlrc-baseline", 1


@dataclass(frozen=True, kw_only=True)
class BaselineRun:
    """The test metrics of one final run, in each setting that its protocol has."""

    run: int
    test: dict[str, Metrics]


@dataclass(frozen=True, kw_only=True)
class BaselineMethod:
    """One method with the hyper-parameters it was run with."""

    method: str
    method_code: str
    hyperparameters: dict[str, Value]
    origins: dict[str, tuple[str, ...]]  # versions, device, threads, code revision
    runs: tuple[BaselineRun, ...]


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Methods under one protocol, on one data set and split."""

    format: Literal["mlrc-baseline"] = "mlrc-baseline"
    schema: int = SCHEMA
    created_at: UtcTime
    data: str  # how the data set was named on the command line
    protocol: Annotated[dict[str, Any], has(title=str, digest=str, values=dict)]
    dataset: Annotated[dict[str, Any], has(name=str, content_hash=str, n_classes=int, n_images=int)]
    split: Annotated[dict[str, Any], has(kind=str, digest=str)]
    methods: tuple[BaselineMethod, ...]

    @property
    def comparison(self) -> Comparison:
        """The fingerprints under which it was made."""
        return Comparison(self.protocol["digest"], self.dataset["content_hash"], self.split["digest"])


def write_baseline(baseline: Baseline, path: Path) -> None:
    """Write the file, whole or not at all, after all the checks of `read_baseline`.

    Raises:
        ResultsError: if a check fails or the file cannot be written.
    """
    checked = _checked(plain(baseline))
    write_whole(path, json.dumps(asdict(checked), indent=1, sort_keys=True, allow_nan=False) + "\n")


def read_baseline(path: Path) -> Baseline:
    """The baseline in a file.

    Raises:
        ResultsError: if it cannot be read, is another kind of file or of a newer schema, or contradicts itself.
    """
    value = read_untrusted(path)
    try:
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise ResultsError(f'no baseline: wanted a JSON object whose "format" is "{FORMAT}" (mlrc baseline save).')
        check_schema(value.get("schema"), SCHEMA, "baseline")
        return _checked(value)
    except ResultsError as error:
        raise ResultsError(f"{path}: {error}") from None


def _checked(value: Any) -> Baseline:
    baseline: Baseline = read(Baseline, value)
    if (found := protocol_digest(baseline.protocol["values"])) != baseline.protocol["digest"]:
        raise ResultsError(
            f"protocol.digest is {baseline.protocol['digest']!r:.40}, but that of its values is {found}; save it again."
        )
    if not baseline.methods:
        raise ResultsError("methods: there is none; a baseline holds one at least.")
    name, times = Counter(method.method for method in baseline.methods).most_common(1)[0]
    if times > 1:
        raise ResultsError(f"methods: {name!r:.60} is there {times} times; each belongs there once.")
    for method in baseline.methods:
        _check_runs(method, baseline.protocol["values"])
    return baseline


def _check_runs(method: BaselineMethod, protocol: dict[str, Any]) -> None:
    """All runs of the protocol, each with the same settings and metrics."""
    where = f"method {method.method!r:.60}"
    try:
        n_runs, n_folds = n_final_runs(method.method, protocol), int(protocol["folds"]["n_folds"])
    except (KeyError, TypeError, ValueError):
        raise ResultsError("protocol.values has no finals.n_runs or folds.n_folds; it is no protocol.") from None
    numbers = [run.run for run in method.runs]
    if len(numbers) != n_runs or numbers != list(range(1, len(numbers) + 1)):
        raise ResultsError(f"{where}: its runs are {numbers!s:.60}; wanted 1 to {n_runs}.")
    if not numbers:
        raise ResultsError(f"{where}: it has no run.")
    wanted = {"separated", *(["concatenated"] if n_folds > 1 else [])}
    metrics = {name: set(found) for name, found in method.runs[0].test.items()}
    for run in method.runs:
        if set(run.test) != wanted or {name: set(found) for name, found in run.test.items()} != metrics:
            raise ResultsError(f"{where}: run {run.run} has other settings or metrics than its protocol or run 1.")
    if not all(metrics.values()):
        raise ResultsError(f"{where}: a setting has no metric.")
