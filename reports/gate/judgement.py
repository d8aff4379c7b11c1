"""Two sides judged: what differs beside the methods, then the verdict, at once or in looks with more runs each time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from reports.errors import ReportError
from reports.frame import Setting, settings_of
from reports.gate.comparability import FieldDifference, differences
from reports.gate.sides import Runs, Side, paired_values
from reports.gate.verdict import FEWEST_RUNS, LEVEL, SETTLED, Ruling, Verdict, judge
from reports.headings import numbered
from results import external
from results.record import Identity
from results.repeats import ONE_RUN, n_final_runs


@dataclass(frozen=True, kw_only=True)
class Look:
    """One look of a comparison that goes on until it is decided."""

    n_runs: int
    level: float  # what the p-value had to be at most
    p_value: float | None


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A verdict on `new` against `old`, with all that a reader needs to believe it or not."""

    new: Side
    old: Side
    setting: Setting
    metric: str
    ruling: Ruling
    differing: tuple[FieldDifference, ...] = ()
    looks: tuple[Look, ...] = ()
    max_runs: int | None = None  # where it went on until it was decided
    notes: tuple[str, ...] = ()

    @property
    def runs(self) -> tuple[Runs, Runs]:
        """The values that were compared, by run."""
        return paired_values(self.new, self.old, self.setting, self.metric)


def measure(identity: Identity, setting: str | None, metric: str | None) -> tuple[Setting, str]:
    """The setting and metric to compare in: what was asked for, or the protocol's own.

    Raises:
        ReportError: if its protocol has no such setting or metric.
    """
    values = identity.protocol["values"]
    settings = settings_of(int(values["folds"]["n_folds"]))
    chosen = next((known for known in settings if setting in (known, None)), None)
    title = identity.protocol["title"]
    if chosen is None:
        raise ReportError(f"--setting {setting}: {title} has {', '.join(settings)}.")
    asked = metric or values["evaluation"]["primary_metric"]
    if asked not in identity.metrics:
        raise ReportError(f"--metric {asked}: {title} measures {', '.join(identity.metrics)}.")
    return chosen, asked


def compare(
    new: Side, old: Side, setting: Setting, metric: str, margin: float | None = None, level: float = LEVEL
) -> Judgement:
    """The verdict on all runs that both sides have; none where a fingerprint differs."""
    differing = tuple(differences(new, old))
    decisive = [found for found in differing if found.is_decisive]
    if decisive:
        more = f" and {len(decisive) - 1} more fields" if len(decisive) > 1 else ""
        reason = f"{decisive[0].field} is {decisive[0].new} against {decisive[0].old}{more}"
        ruling = Ruling(verdict=Verdict.NOT_COMPARABLE, reason=reason, level=level, margin=margin)
    else:
        found, against = paired_values(new, old, setting, metric)
        ruling = judge(found, against, failed=new.failed, margin=margin, level=level)
    return Judgement(
        new=new,
        old=old,
        setting=setting,
        metric=metric,
        ruling=ruling,
        differing=differing,
        notes=_notes(new, old, setting, metric, ruling),
    )


def until_decided(
    sides: Callable[[int], tuple[Side, Side]],
    looks: Sequence[int],
    levels: Sequence[float],
    setting: Setting,
    metric: str,
    margin: float | None = None,
) -> Judgement:
    """Ask for more runs at each look until the verdict is settled, or the last look is taken.

    Args:
        sides: gives both sides with their runs up to a number.
        looks: numbers of runs, ascending.
        levels: what the p-value must be at most at each look, so that all looks together keep the level.
    """
    taken: list[Look] = []
    found: Judgement | None = None
    for n_runs, level in zip(looks, levels, strict=True):
        new, old = sides(n_runs)
        found = compare(new.first(n_runs), old.first(n_runs), setting, metric, margin, level)
        difference = found.ruling.difference
        taken.append(Look(n_runs=n_runs, level=level, p_value=difference.p_value if difference else None))
        if found.ruling.verdict in (*SETTLED, Verdict.NOT_COMPARABLE):
            break
    assert found is not None, "a schedule has a look"
    return replace(found, looks=tuple(taken), max_runs=looks[-1])


def foretold(new: Side, old: Side, setting: Setting, metric: str, margin: float | None = None) -> Judgement | None:
    """The judgement that follows before anything is run: fingerprints differ, or too few runs are planned."""
    found = compare(new, old, setting, metric, margin)
    if found.ruling.verdict is Verdict.NOT_COMPARABLE:
        return found
    planned = min(_planned_runs(side, other) for side, other in ((new, old), (old, new)))
    if planned >= FEWEST_RUNS:
        return None
    is_set = int(new.identity.protocol["values"]["finals"]["n_runs"]) == planned
    out = f"give --set n_runs={FEWEST_RUNS} or more" if is_set else "nothing is random in either"
    reason = f"{planned} planned; {FEWEST_RUNS} are the fewest that can tell anything: {out}. Nothing was run"
    return replace(found, ruling=replace(found.ruling, verdict=Verdict.TOO_FEW_RUNS, reason=reason))


def _planned_runs(side: Side, other: Side) -> int:
    """Runs of a side; where nothing is random in it, as many as the other's."""
    chosen = other if side.identity.method in ONE_RUN else side
    return n_final_runs(chosen.identity.method, chosen.identity.protocol["values"])


def _notes(new: Side, old: Side, setting: Setting, metric: str, ruling: Ruling) -> tuple[str, ...]:
    if ruling.verdict is Verdict.NOT_COMPARABLE:
        return ()
    found, against = paired_values(new, old, setting, metric)
    notes = [*new.notes, *old.notes]
    if new.identity.protocol["values"].get("name") == external.NAME:
        notes.append(external.RUNS_NOTE)
    for side, other in ((new, old), (old, new)):
        if side.identity.method in ONE_RUN and other.identity.method not in ONE_RUN:
            notes.append(f"nothing is random in {side.label}: its one run stands for every run")
    reasons: dict[str, list[int]] = {}
    for run, reason in sorted(old.failed.items()):
        reasons.setdefault(reason, []).append(run)
    for reason, runs in reasons.items():
        are = "are" if len(runs) > 1 else "is"
        notes.append(f"{numbered('run', runs)} of {old.label} failed and {are} left out: {reason}")
    if len(found) > 1 and found == against:
        notes.append(f"all {len(found)} runs are equal to the last bit")
    return tuple(notes)
