"""Templates and what they need: every text is escaped, a missing value is an error, a page may load nothing else."""

import re
from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from reports.grid import percent, percent_text
from reports.headings import metric_heading, printable

# Style, script and pictures come from the folder, opened from a file or served; there is no other source and no form.
POLICY = Markup(
    "default-src 'none';style-src 'self' file:;script-src 'self' file:;img-src 'self' file:;base-uri 'none';"
    "form-action 'none'"
)
SHORT_POLICY = Markup(
    "default-src 'self' file:"
)  # of the pages that there are thousands of; nothing inline, nothing far
FAMILIES = {
    "pair": "Loss over pairs or tuples",
    "class": "Loss with class weights or proxies",
    "linear": "Linear metric on frozen features",
    "baseline": "Baseline, not trained",
}
ADDRESS = re.compile(r"https://[^\s<>\"']+[^\s<>\"'.,;:)]")


def environment() -> Environment:
    """Jinja with our templates and filters."""
    made = Environment(
        loader=PackageLoader("reports.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    filters: dict[str, Callable[..., Any]] = {
        "percent": lambda cell: _unbroken(percent(cell)),
        "quoted_percent": lambda value: _unbroken(percent_text(value.mean, value.ci95_half_width)),
        "pct": lambda value: f"{100 * value:.2f}",
        "percent_of": lambda share: f"{100 * share:.0f} %",
        "digits": lambda value: f"{value:.6g}",
        "heading": metric_heading,
        "thousands": lambda value: f"{value:,}",
        "family": lambda name: FAMILIES.get(name, name),
        "sentence": lambda text: f"{text[:1].upper()}{text[1:]}.",
        "linked": linked,
        "breakable": breakable,
    }
    made.filters.update(filters)
    made.globals |= {"policy": POLICY, "short_policy": SHORT_POLICY}
    return made


def _unbroken(text: str) -> Markup:
    """A number with its interval, which may be broken before the ± and not behind it."""
    return escape(text).replace("± ", Markup("±&nbsp;"))


def breakable(name: str) -> Markup:
    """A method's name, which may be broken behind a colon: `my_loss.py:` and `SquaredContrastive`."""
    return Markup(":<wbr>").join(map(escape, printable(name).split(":")))


def linked(text: str) -> Markup:
    """A text with its web addresses as links that tell the other side nothing."""
    parts, end = [], 0
    for found in ADDRESS.finditer(text):
        address = escape(found[0])
        parts += [escape(text[end : found.start()]), Markup('<a rel="noreferrer" href="{0}">{0}</a>').format(address)]
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])


def _printable(value: Any) -> Any:
    """What a template prints, without control characters: names come from files and from other people's records."""
    if isinstance(value, Markup) or not isinstance(value, str) or value.isprintable():
        return value
    return "\n".join(map(printable, value.split("\n")))
