"""The LaTeX form: columns that add up, names that cannot break it, and a document that compiles where TeX is there."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from published_runs import quoted, runs
from small_tables import FULL, row, table

from reports.latex import escaped, to_latex
from reports.tables import Table

ODD_NAMES = (
    r"\input{x}",
    "50 % of #1 & $x_1^2$",
    "{a} ~ b",
    "[red] first",
    "*star",
    "<script>|x|</script>",
    "a--b---c 'q' `r` \"s\"",
    "naïve Ångström ß",
    "漢字 и Ж 🙂",
    "þorn ÿ ŋ ł",
    "a" * 90,
)
DOCUMENT = "\\documentclass{article}\n\\usepackage{booktabs,graphicx}\n\\begin{document}\n%s\n\\end{document}\n"


def odd() -> Table:
    rows = [row(name, 0.1 + place / 100) for place, name in enumerate(ODD_NAMES)]
    lost = row("lost_&_%", None, n_runs=0, missing="failed: 100 % of {x}")
    elsewhere = ("a_b: recorded under protocol x_y@1+ (0)",)
    return replace(table(*rows, lost), dataset_name="a_b & c", origins=("torch 1_0 (a#b) or 2",), elsewhere=elsewhere)


def body(text: str) -> list[str]:
    """The rows of a tabular, without rules."""
    (found,) = re.findall(r"\\begin\{tabular\}.*?\n(.*?)\\end\{tabular\}", text, flags=re.DOTALL)
    return [line for line in found.splitlines() if line.endswith(r"\\")]


def columns(line: str) -> int:
    spans = [int(span) for span in re.findall(r"\\multicolumn\{(\d+)\}", line)]
    return 1 + len(re.findall(r"(?<!\\)&", line)) + sum(span - 1 for span in spans)


@pytest.mark.parametrize("found", [FULL, odd(), replace(FULL, n_folds=1, rows=FULL.rows[:1])])
def test_every_line_has_as_many_columns_as_are_declared(found: Table) -> None:
    text = to_latex([found])
    (declared,) = re.findall(r"\\begin\{tabular\}\{@\{\}(l*r+)@\{\}\}", text)
    lines = body(text)
    assert {columns(line) for line in lines} == {len(declared)}
    assert len(lines) == 2 + len(found.rows)
    for rule in ("toprule", "midrule", "bottomrule"):
        assert rf"\{rule}" in text


@pytest.mark.parametrize("text", [to_latex([FULL]), to_latex([odd(), FULL])], ids=["plain", "odd"])
def test_braces_and_environments_are_balanced(text: str) -> None:
    bare = re.sub(r"\\[\\{}%&$#_]", "", re.sub(r"(?m)^%.*$", "", text))
    depth = 0
    for letter in bare:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        assert depth >= 0
    assert depth == 0
    assert re.findall(r"\\begin\{(\w+\*?)\}", text).count("table*") == text.count(r"\end{table*}")
    assert bare.count(r"\ifdefined") == bare.count(r"\fi{")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_no_character_of_a_name_keeps_a_meaning(name: str) -> None:
    text = escaped(name)
    commands = {
        *("textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater", "textbar"),
        *("textasciigrave", "ifdefined", "Umathcode", "else", "fi"),
    }
    assert set(re.findall(r"\\([a-zA-Z]+)", text)) <= commands
    assert not re.search(r"(?<!\\)[&%#_$]", text.replace(r"$\pm$", "").replace(r"$^\dagger$", ""))


def test_a_name_that_begins_with_a_bracket_or_a_star_is_no_option_of_the_line_before() -> None:
    assert not [line for line in body(to_latex([odd()])) if re.match(r"\s*[\[*]", line)]


def test_bold_and_published_rows_are_set_apart_and_ours_alone_is_bold() -> None:
    text = to_latex(quoted(runs("contrastive", 0.26) + runs("triplet", 0.2)))
    assert r"{contrastive} & \textbf{26.00 $\pm$ 0.18}" in text
    assert r"{\textit{contrastive [musgrave2020]}} & \textit{68.13 $\pm$ 0.31}" in text
    assert r"\textit{\textbf" not in text


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_it_compiles_with_every_odd_name(tmp_path: Path) -> None:
    tables = [odd(), FULL, *quoted(runs("contrastive", 0.26))]
    (tmp_path / "t.tex").write_text(DOCUMENT % to_latex(tables), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    log = done.stdout.decode(errors="replace")
    assert done.returncode == 0, log[-2000:]
    assert "Overfull" not in log
    assert (tmp_path / "t.pdf").stat().st_size > 10_000
