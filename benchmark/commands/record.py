"""The command `mlrc record`: one record in full, with every audit check that its job passed."""

import json
from typing import Annotated, Any

import typer

from benchmark.console import console, print_json
from benchmark.options import DEFAULT_STORE, AsJson, StoreUrl
from benchmark.stores import find_record, open_store

record_app = typer.Typer(rich_markup_mode=None)


@record_app.command("record")
def show_record(
    beginning: Annotated[str | None, typer.Argument(metavar="ID", help="The id or its beginning.")] = None,
    store: StoreUrl = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Show one record in full: what was held fixed and proved, what was found, by which versions; or list all."""
    from benchmark.commands.listings import details, table
    from results.record import to_json
    from results.searches import trial_numbers

    with open_store(store, must_exist=True) as opened:
        if beginning is None:
            records = opened.records()
            trials = trial_numbers(records)
            lines = [_line(json.loads(to_json(record)), trials.get(record.id)) for record in records]
            if as_json:
                print_json(lines)
            else:
                told_apart = [name for name in ("protocol", "dataset") if len({line[name] for line in lines}) > 1]
                columns = ("id", *told_apart, "method", "run", "fold", "outcome", "measured", "map_at_r")
                console.print(table([_shown(line) for line in lines], columns, {"map_at_r": "MAP@R"}))
            return
        values = json.loads(to_json(find_record(opened, beginning)))
    if as_json:
        print_json(values)
        return
    for title, part in _parts(values).items():
        if part:
            console.print(f"\n{title}" if title else "", style="bold")
            console.print(details(part))


def _line(values: dict[str, Any], trial: int | None) -> dict[str, Any]:
    identity, of_run = values["identity"], "members" in values
    measured = "test" if values["test"] else "validation"
    return {
        "id": values["id"],
        "protocol": identity["protocol"]["title"],
        "dataset": identity["dataset"]["name"],
        "method": identity["method"],
        "run": identity["run"] if identity["purpose"] == "final" else "search",
        "trial": trial,
        "fold": "all" if of_run else values["fold"],
        "outcome": "done" if of_run else values["outcome"],
        "measured": "test, concatenated" if of_run else measured,
        "map_at_r": (values.get(measured) or {}).get("map_at_r"),
    }


def _shown(line: dict[str, Any]) -> dict[str, Any]:
    """The line for people: percent, as in every table."""
    run = line["run"] if line["trial"] is None else f"trial {line['trial']}"
    return line | {"run": run, "map_at_r": _percent(line["map_at_r"])}


def _percent(value: float | None) -> str | None:
    return None if value is None else f"{100 * value:.2f}"


def _in_percent(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics below their headings."""
    from reports.headings import metric_heading

    return {metric_heading(name): f"{_percent(value)} %" for name, value in metrics.items()}


def _parts(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The fields of a record by what they are about, in the order in which a reader asks."""
    identity = values["identity"]
    head = {
        "id": values["id"],
        **{name: identity[name] for name in ("method", "method_code", "hyperparameters", "purpose", "run")},
        **{name: values.get(name) for name in ("fold", "members", "seed", "outcome", "reason", "message")},
        **{name: values.get(name) for name in ("best_step", "n_steps", "n_images_seen")},
        "protocol": f"{identity['protocol']['title']} ({identity['protocol']['digest']})",
        "data set": f"{identity['dataset']['name']} ({identity['dataset']['content_hash']})",
        "split": f"{identity['split']['kind']} ({identity['split']['digest'][:12]})",
    }
    checks = values.get("audit", [{"name": "checks", "passed": True, "detail": "in the records of the members"}])
    return {
        "": {name: value for name, value in head.items() if value not in (None, "", {})},
        "Audit": {check["name"]: f"{'passed' if check['passed'] else 'FAILED'}: {check['detail']}" for check in checks},
        "Validation": _in_percent(values.get("validation") or {}),
        "Test": _in_percent(values.get("test") or {}),
        "Evaluation": values.get("evaluation_audit") or {},
        "In force": values.get("in_force") or {},
        "The method's own": values.get("method_state") or {},
        "Made by": {name: value for name, value in values["provenance"].items() if value}
        | {"seconds": values["seconds"]},
    }
