"""Result tables as one HTML file: no script, nothing from elsewhere, every name as text, pictures inside."""

from base64 import b64encode
from collections.abc import Iterable, Iterator
from html import escape

from reports.grid import Line, columns_of, ends_section, lines, remarks
from reports.headings import metric_heading
from reports.plots import svg_bytes
from reports.tables import Table

HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>Results</title>
<style>
:root { color-scheme: light dark; --line: #8884; --soft: #6b6b6b; --mark: #0072b21f; }
@media (prefers-color-scheme: dark) { :root { --soft: #a5a5a5; --mark: #56b4e92e; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1.05rem; margin: 3rem 0 0; }
h2 + p { margin: 0 0 1rem; color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 9rem; }
thead { border-bottom: 1px solid currentColor; }
thead tr:first-child th { text-align: center; font-weight: 500; }
tr.ends td, tr.ends th { border-bottom: 1px solid var(--line); }
tbody th { font-weight: 400; }
tr.baseline, tr.quoted { color: var(--soft); }
tr.quoted { font-style: italic; }
td.best { font-weight: 700; background: var(--mark); }
@media (max-width: 76rem) { td { white-space: normal; min-width: 4rem; } th, td { padding-inline: .4rem; } }
.warning { border-left: 3px solid #d55e00; padding-left: .7rem; }
ul { padding-left: 1.2rem; font-size: .85rem; color: var(--soft); }
img { max-width: 100%; background: #fff; margin-top: 1rem; }
</style>
</head>
<body>
<h1>Results</h1>
"""
TAIL = "</body>\n</html>\n"


def to_html(tables: Iterable[Table]) -> str:
    """A whole page of all tables, each with its picture."""
    return HEAD + "".join(f"{line}\n" for table in tables for line in _section(table)) + TAIL


def _section(table: Table) -> Iterator[str]:
    protocol, dataset = table.title()
    yield f"<section>\n<h2>{escape(protocol)}</h2>\n<p>{escape(dataset)}</p>"
    if table.warning():
        yield f'<p class="warning">{escape(table.warning())}</p>'
    yield '<div class="scroll"><table>\n<thead>'
    yield from _head(table)
    yield "</thead>\n<tbody>"
    found = lines(table, columns_of(table), table.settings)
    for line, following in zip(found, [*found[1:], None], strict=True):
        yield _row(line, ends=ends_section(line, following))
    yield "</tbody>\n</table></div>"
    for heading, texts in remarks(table):
        yield f'<div class="warning">{escape(heading)}{_list(texts)}</div>'
    yield _list(table.footer())
    picture = b64encode(svg_bytes(table)).decode()
    words = f"{metric_heading(table.primary_metric)} of each method with its interval, as in the table"
    yield f'<img alt="{escape(words)}" src="data:image/svg+xml;base64,{picture}">\n</section>'


def _head(table: Table) -> Iterator[str]:
    groups = "".join(
        f'<th scope="colgroup" colspan="{sum(len(metrics) for name, metrics in table.blocks if name == setting)}">'
        f"{escape(table.heading(setting))}</th>"
        for setting in table.settings
    )
    yield f"<tr><td></td>{groups}<td></td></tr>"
    names = ["Method", *(metric_heading(metric) for _, metric in columns_of(table)), "Runs"]
    yield f"<tr>{''.join(f'<th scope=col>{escape(name)}</th>' for name in names)}</tr>"


def _row(line: Line, *, ends: bool) -> str:
    numbers = "".join(
        f"<td{' class=best' if best else ''}>{escape(number).replace('± ', '±&nbsp;')}</td>"
        for number, best in line.numbers
    )
    kind = f"{line.kind} ends" if ends else line.kind
    return f'<tr class="{kind}"><th scope="row">{escape(line.label)}</th>{numbers}<td>{line.runs}</td></tr>'


def _list(texts: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"
