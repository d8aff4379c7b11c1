"""Result tables in LaTeX with booktabs: floats for `\\input`, for pdfLaTeX as well as for XeLaTeX and LuaLaTeX.

Names hold any character. Those that pdfLaTeX has no glyph for are written as their code point there, and as themselves
by the other two.
"""

import re
from collections.abc import Iterable, Iterator

from reports.grid import Line, columns_of, ends_section, lines, remarks
from reports.headings import metric_heading
from reports.tables import Table

HEAD = "% Needs \\usepackage{booktabs, graphicx}; a table that is wider than the text is made smaller."
FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "-": "{-}",  # two of them would become one dash
    "`": r"\textasciigrave{}",
    "'": "{'}",
    "±": r"$\pm$",
    "†": r"$^\dagger$",
    "–": "--",
    **{letter: rf"\{letter}" for letter in "&%$#_{}"},
}
OTHERS = re.compile("([^\x20-\x7eÀ-ÏÑ-ÖØ-Ýßà-ïñ-öø-ýÿ±†–]+)")


def to_latex(tables: Iterable[Table]) -> str:
    """All tables, each a float that is as wide as the page."""
    return "\n".join([HEAD, *("\n".join(["", *_float(table)]) for table in tables)]) + "\n"


def escaped(text: str) -> str:
    """Text as LaTeX that prints it, in every place where text may stand."""
    parts = OTHERS.split(text)
    return "".join(_other(part) if place % 2 else _known(part) for place, part in enumerate(parts))


def _known(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def _other(text: str) -> str:
    """Only XeTeX and LuaTeX know `\\Umathcode`, and both have glyphs by Unicode."""
    points = " ".join(f"U+{ord(letter):04X}" for letter in text)
    return rf"\ifdefined\Umathcode {text}\else {points}\fi{{}}"


def _float(table: Table) -> Iterator[str]:
    columns = columns_of(table)
    title = " ".join(f"{escaped(line)}." for line in table.title())
    yield from (r"\begin{table*}", r"\centering", r"\footnotesize", r"\setlength{\tabcolsep}{3pt}")
    yield rf"\caption{{{title}}}"
    yield FITTED
    yield rf"\begin{{tabular}}{{@{{}}l{'r' * len(columns)}r@{{}}}}"
    yield r"\toprule"
    yield from _groups(table)
    yield _row(["Method", *(escaped(metric_heading(metric)) for _, metric in columns), "Runs"])
    yield r"\midrule"
    found = lines(table, columns, table.settings)
    for line, following in zip(found, [*found[1:], None], strict=True):
        yield _row(_cells(line))
        if ends_section(line, following):
            yield r"\midrule"
    yield from (r"\bottomrule", r"\end{tabular}}", r"\par\smallskip", r"\begin{minipage}{\linewidth}\scriptsize")
    yield from (rf"{escaped(note)}\par" for note in _notes(table))
    yield from (r"\end{minipage}", r"\end{table*}")


def _groups(table: Table) -> Iterator[str]:
    """A line above the headings that says which setting columns are of."""
    spans = {
        setting: sum(len(metrics) for found, metrics in table.blocks if found == setting) for setting in table.settings
    }
    heads = [rf"\multicolumn{{{span}}}{{c}}{{{escaped(table.heading(name))}}}" for name, span in spans.items()]
    yield rf" & {' & '.join(heads)} & \\"
    first = 2
    for span in spans.values():
        yield rf"\cmidrule(lr){{{first}-{first + span - 1}}}"
        first += span


def _cells(line: Line) -> list[str]:
    numbers = [rf"\textbf{{{escaped(number)}}}" if best else escaped(number) for number, best in line.numbers]
    texts = [escaped(line.label), *numbers, line.runs]
    return [rf"\textit{{{text}}}" for text in texts] if line.kind == "quoted" else texts


def _row(cells: list[str]) -> str:
    """Braces keep a name that begins with a bracket or a star from being read as an option of the line before."""
    return rf"{{{cells[0]}}} & {' & '.join(cells[1:])} \\"


def _notes(table: Table) -> Iterator[str]:
    if table.warning():
        yield table.warning()
    for heading, found in remarks(table):
        yield f"{heading} {'; '.join(found)}."
    yield from table.footer()
