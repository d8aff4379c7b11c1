"""A plan for the terminal: a table of methods, a table of workers, and what they rest on."""

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.markup import escape

from benchmark.commands.listings import table
from protocols.datasets.files import size_text

Line = dict[str, Any]


def plan_text(plan: Line) -> Iterator[RenderableType]:
    """The parts of `benchmark.oversight.plan.plan`'s values, in the order in which they are read."""
    yield escape(f"{plan['protocol']} ({plan['protocol_digest']}) on {plan['dataset']}, {plan['device']}\n")
    total = {"method": "all", "trials": None, "final_folds": None, **plan["total"]}
    lines = [_shown(line) for line in (*plan["methods"], total)]
    columns = ("method", "trials", "final_folds", "jobs", "models", "steps", "images", "job_hours")
    yield table(lines, columns, {"job_hours": "job time"})
    if extra := plan["total"]["jobs"] - plan["total"]["models"]:
        yield f"{extra:,} of the jobs train no model: each puts the test embeddings of one run's fold models together."
    if not plan["total"]["jobs"]:
        yield "\nNothing is left to run."
        return
    yield ""
    yield table(
        [
            {
                "workers": str(line["workers"]),
                "hours": hours_text(line["hours"]),
                "speed_up": f"{line['speed_up']:.1f} x",
                "busy": f"{100 * line['busy']:.0f} %",
            }
            for line in plan["by_workers"]
        ],
        ("workers", "hours", "speed_up", "busy"),
        {"hours": "time"},
    )
    steps, disk = plan["steps_per_job"], plan["disk"]
    yield (
        f"\nSteps of a job: {steps['expected']:,} ({steps['source']}); from {steps['shortest']:,} "
        f"to {steps['longest']:,} are possible, and the time goes with them.\n"
        f"Seconds: {plan['costs']}. Each worker is taken to have a core or an accelerator of its own.\n"
        f"Disk: records {size_text(disk['records_bytes'])}, test embeddings {size_text(disk['embeddings_bytes'])}"
        + (f", decoded images {size_text(disk['cache_bytes'])}" if disk["cache_bytes"] else "")
        + f"; {size_text(disk['free_bytes'])} are free."
    )


def hours_text(hours: float) -> str:
    """Hours as people say them: seconds and minutes below one hour."""
    if hours * 3600 < 90:
        return f"{hours * 3600:.0f} s"
    return f"{hours * 60:.0f} min" if hours < 1.5 else f"{hours:,.1f} h"


def _shown(line: Line) -> Line:
    counts = {name: f"{line[name]:,}" for name in ("jobs", "models", "steps", "images")}
    return {**line, **counts, "job_hours": hours_text(line["job_hours"])}
