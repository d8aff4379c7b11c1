"""Training curves of the final fold models of one method: validation MAP@R over steps, and the loss of one of them.

That one stands in front, the first that has a curve, with its best step and, for chance constraints, the steps at
which a new proxy problem began; all others lie behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reports.site.charts import Chart, Path, Plane
from results.record import FoldRecord

Points = list[tuple[float, float]]
MOST_LINES = 12  # behind; more hide each other
MOST_BEHIND = 14  # points of one of them


@dataclass(frozen=True, kw_only=True)
class Curves:
    """The charts, and what is in front."""

    front: FoldRecord
    n_behind: int
    n_others: int  # fold models beside the one in front
    switches: tuple[int, ...]  # steps at which the model in front went on to its next problem
    validation: Chart
    loss: Chart | None


def curves(folds: Sequence[FoldRecord]) -> Curves | None:
    """The curves of some fold models; None where none has one of two points."""
    with_curve = [fold for fold in folds if len(fold.curve) > 1]
    if not with_curve:
        return None
    front = with_curve[0]
    switches = switch_steps(front)
    behind = with_curve[1 : MOST_LINES + 1]
    validation = [_validation(fold) for fold in (front, *behind)]
    loss = _loss(front)
    return Curves(
        front=front,
        n_behind=len(behind),
        n_others=len(with_curve) - 1,
        switches=switches,
        validation=_chart("validation MAP@R (%)", validation, switches, front.best_step),
        loss=_chart("loss", [loss], switches, None) if len(loss) > 1 else None,
    )


def switch_steps(fold: FoldRecord) -> tuple[int, ...]:
    """After which steps a chain of problems (CCP) went on to the next one."""
    chain = (fold.method_state or {}).get("problems") or []
    return tuple(int(problem["after_step"]) for problem in chain[1:])


def _validation(fold: FoldRecord) -> Points:
    return [(point.step, 100 * point.map_at_r) for point in fold.curve]


def _loss(fold: FoldRecord) -> Points:
    return [(point.step, point.loss) for point in fold.curve if point.loss is not None]


def _chart(label: str, lines: Sequence[Points], switches: Sequence[int], best_step: int | None) -> Chart:
    everything = [point for line in lines for point in line]
    plane = Plane((x for x, _ in everything), (y for _, y in everything))
    best = [point for point in lines[0] if point[0] == best_step]
    marked = f"; new problems after steps {', '.join(map(str, switches))}" if switches else ""
    of = "1 fold model" if len(lines) == 1 else f"{len(lines)} fold models"
    at_best = f", best {best[0][1]:.2f} at step {best[0][0]:.0f}" if best else ""
    return plane.chart(
        f"{label} over training steps of {of}{at_best}{marked}",
        "training step",
        label,
        [
            Path(d="".join(plane.line(line, MOST_BEHIND) for line in lines[1:] if line), look="behind"),
            Path(d=plane.verticals(step for step in switches if plane.x_low <= step <= plane.x_high), look="switch"),
            Path(d=plane.line(lines[0]), look="front"),
            Path(d=plane.dots(best), look="dots"),
        ],
    )
