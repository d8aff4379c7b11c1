"""Templates and what they need: every text is escaped, a missing value is an error, a page may load nothing else."""

import re
from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from reports.grid import LACKS_RUNS, percent, percent_text
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
# Behind a colon, a slash or a bracket, and between the words of a file's or a class's name; `w_lr` and `NCA` are one.
WORD_ENDS = re.compile(r"(?<=[:/])(?=.)|(?<=\w\()(?=.)|(?<=[a-z0-9]{2}_)(?=[a-z0-9]{2})|(?<=[a-z]{3})(?=[A-Z][a-z]{2})")
LACKING = Markup('<span class="lacks">{0}</span>').format(LACKS_RUNS)


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
        "counted": counted,
        "family": lambda name: FAMILIES.get(name, name),
        "sentence": lambda text: f"{text[:1].upper()}{text[1:]}.",
        "linked": linked,
        "breakable": breakable,
        "prose": prose,
    }
    made.filters.update(filters)
    made.globals |= {"policy": POLICY, "short_policy": SHORT_POLICY}
    return made


def _unbroken(text: str) -> Markup:
    """A number with its interval, which may be broken before the ± and not behind it; a dagger takes no room."""
    return escape(text).replace("± ", Markup("±&nbsp;")).replace(LACKS_RUNS, LACKING)


def breakable(name: str) -> Markup:
    """A name, which may be broken where its words end: `my_loss.py:`, `Squared` and `Contrastive`."""
    return Markup("<wbr>").join(map(escape, WORD_ENDS.split(printable(name))))


def counted(n: int, noun: str, plural: str = "") -> str:
    """`1 class` or `2,420 classes`."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def prose(text: str) -> Markup:
    """A docstring: its paragraphs, which flow, and its indented formulas, which keep their lines."""
    blocks = []
    for block in text.split("\n\n"):
        element = "pre" if block.startswith("  ") else "p"
        lines = "\n".join(map(printable, block.split("\n")))
        blocks.append(Markup("<{0}>{1}</{0}>").format(element, lines))
    return Markup("\n").join(blocks)


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
