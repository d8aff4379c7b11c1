"""The site: whole, escaped, closed in itself, and no larger or slower than promised."""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pytest
from site_records import DATASETS, METHODS, site_records

from protocols.catalogue import PUBLISHED
from reports.errors import ReportError
from reports.frame import runs_frame
from reports.quoted import with_quoted
from reports.site.build import build_site
from reports.site.folder import PARTS
from reports.site.material import Material, MethodText, Searched
from reports.tables import Table
from reports.tabulation import result_tables
from results import external
from results.record import FoldRecord, Record

HOSTILE = "<script>alert(1)</script>"
SETTINGS = ("finals.n_runs=3", "folds.n_folds=2")


def tables_of(records: list[Record]) -> list[Table]:
    by_dataset: dict[str, list[Record]] = {}
    for record in records:
        by_dataset.setdefault(record.identity.dataset["content_hash"], []).append(record)
    frame = pd.concat([runs_frame(found) for found in by_dataset.values()], ignore_index=True)
    return with_quoted(result_tables(frame), {protocol.title: protocol.digest() for protocol in PUBLISHED})


def built(records: list[Record], folder: Path, material: Material | None = None) -> Path:
    return build_site(tables_of(records), records, folder, material).index.parent


def with_margin(record: Record, margin: float) -> Record:
    identity = replace(record.identity, hyperparameters={**record.identity.hyperparameters, "margin": margin})
    return replace(record, id=f"{record.id}-{margin}", identity=identity)


class Page(HTMLParser):
    """What a page has: its elements with their attributes, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def addresses(self) -> Iterator[str]:
        for tag, attributes in self.elements:
            if tag != "use":
                yield from (attributes[name] for name in ("href", "src") if name in attributes)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two data sets, a hostile method among six, a search, and a run of which a fold failed."""
    methods = (*METHODS[:3], "ccp-contrastive", HOSTILE, "MS")
    records = site_records(methods, (DATASETS[0], "other"), *SETTINGS, n_trials=4)
    records += site_records(("ms",), (DATASETS[0],), *SETTINGS)
    for margin in (0.1, 0.2):  # a second and a third set of hyper-parameters of one method
        records += [with_margin(one, margin) for one in site_records(("ms",), (DATASETS[0],), *SETTINGS)]
    finals = [one for one in records if isinstance(one, FoldRecord) and one.identity.purpose == "final"]
    broken = next(one for one in finals if one.identity.method == "triplet")
    failed = replace(broken, outcome="failed", reason="collapsed", message=f"no spread {HOSTILE}", test=None)
    records[records.index(broken)] = failed
    searches = {Searched(one.identity.comparison, one.identity.method, "") for one in records}
    text = MethodText(
        family="pair",
        formula=f"d < {HOSTILE} & more",
        source='Nobody, "Nothing", https://example.org/a"b javascript:alert(1)',
        space={"margin": {"type": "float", "low": 0.0, "high": 1.0, "log": False}},
    )
    material = Material(
        methods={HOSTILE: text, "contrastive": text},
        importances={search: {"margin": 0.9, "w_lr": 0.1} for search in searches},
    )
    return built(records, tmp_path_factory.mktemp("small") / "site", material)


@pytest.fixture(scope="module")
def pages(small: Path) -> Mapping[Path, Page]:
    return {path: Page(path) for path in small.rglob("*.html")}


def test_every_link_leads_to_a_file_of_the_folder_or_to_a_place_in_it(pages: Mapping[Path, Page], small: Path) -> None:
    names = {
        path: {attributes["id"] for _, attributes in page.elements if "id" in attributes}
        for path, page in pages.items()
    }
    n_links = 0
    for path, page in pages.items():
        for address in page.addresses():
            if address.startswith("https://"):
                assert any(tag == "a" and found.get("href") == address for tag, found in page.elements)
                continue
            file, _, anchor = unquote(address).partition("#")
            target = (path.parent / file).resolve() if file else path
            assert target.is_file(), f"{path.name}: {address}"
            assert target.is_relative_to(small.resolve())
            assert not anchor or anchor in names[small / target.relative_to(small.resolve())], f"{path.name}: {address}"
            n_links += 1
    assert n_links > 1000


def test_no_name_becomes_markup_and_no_page_runs_anything_but_the_one_script(pages: Mapping[Path, Page]) -> None:
    shown = 0
    for path, page in pages.items():
        scripts = [attributes for tag, attributes in page.elements if tag == "script"]
        assert [Path(one["src"]).name for one in scripts] == ["site.js"], path
        for tag, attributes in page.elements:
            assert not any(name.startswith("on") or name == "style" for name in attributes), (path, tag)
            assert "javascript:" not in attributes.get("href", "")
        policy = next(one["content"] for tag, one in page.elements if tag == "meta" and "http-equiv" in one)
        assert policy.startswith("default-src '")
        assert "unsafe" not in policy
        shown += HOSTILE in page.text
    assert shown > 10  # its own page, boards, index, records


def test_pages_are_named_safely_and_no_two_alike_where_case_does_not_count(small: Path) -> None:
    names = [str(path.relative_to(small)) for path in small.rglob("*") if path.is_file()]
    assert len({name.lower() for name in names}) == len(names)
    assert all(re.fullmatch(r"[a-z0-9./-]+", name) for name in names)
    assert {name.partition("/")[0] for name in names} <= set(PARTS)  # what the next site replaces
    assert {"methods/contrastive.html", "methods/ms.html"} <= set(names)  # MS is another method


def test_the_overview_has_every_method_on_every_data_set(small: Path) -> None:
    text = re.sub(r"\s+", " ", Page(small / "index.html").text)
    for name in ("untrained", "contrastive", "ccp-contrastive", HOSTILE, "cub200", "other", "Interquartile mean"):
        assert name in text


def test_the_overview_tells_how_many_runs_a_number_is_of_and_nothing_of_what_is_not_there(
    small: Path, tmp_path: Path
) -> None:
    def reading(folder: Path) -> str:
        return re.sub(r"\s+", " ", Page(folder / "index.html").text)

    several = reading(small)
    assert "± half width of the 95 % interval of a mean over 3 runs. Ordered by mean rank over the data sets" in several
    for wanted in ("Bold: the best trained method", "† runs are missing.", "– no result.", "7 methods on 2 boards."):
        assert wanted in several
    one = site_records(METHODS[:2], DATASETS[:1], "finals.n_runs=2")
    alone = reading(built(one, tmp_path / "two runs"))
    assert "a mean over 2 runs. Ordered by rank when concatenated. Nothing is bold" in alone
    assert "2 methods on 1 board." in alone
    for unwanted in ("†", "– no result", "Interquartile", "Bold:"):
        assert unwanted not in alone
    single = reading(built(site_records(METHODS[1:2], DATASETS[:1], "finals.n_runs=1"), tmp_path / "one run"))
    assert "±" not in single
    assert "1 method on 1 board." in single
    assert "1 method, 1 run" in single


def test_a_board_tells_missing_runs_and_marks_what_is_published(small: Path) -> None:
    (path,) = small.glob("boards/*cub200*.html")
    page = Page(path)
    text = re.sub(r"\s+", " ", page.text)
    assert "triplet: 2 of 3 runs; run 1: fold 0 failed: collapsed" in text
    assert "Published, other people's runs: not ranked" in text
    assert "musgrave2020, other protocol: mlrc@1" in text
    assert "Accuracy over publication year" in text
    rows = [attributes for tag, attributes in page.elements if tag == "tr" and "data-views" in attributes]
    assert all(one["data-views"].count(";") == 5 for one in rows)  # two settings, three metrics


def test_a_method_page_has_its_formula_search_curves_switches_and_runs(small: Path) -> None:
    (path,) = small.glob("methods/script-*.html")
    text = Page(path).text
    for wanted in (
        f"d < {HOSTILE} & more",
        "What moved the validation score",
        "90 %",
        "The records of 4 trials",
        "training step",
    ):
        assert wanted in text
    chained = (small / "methods" / "ccp-contrastive.html").read_text(encoding="utf-8")
    assert len(re.findall(r'<path class="switch" d="M\d+ 26V204M\d+ 26V204"/>', chained)) == 4  # two boards, two charts
    assert "its chain of proxy problems went on" in chained


def test_sets_of_hyper_parameters_of_one_method_have_sections_of_their_own(small: Path) -> None:
    page = Page(small / "methods" / "ms.html")
    anchors = [attributes["id"] for tag, attributes in page.elements if tag == "section"]
    assert len(set(anchors)) == len(anchors) == 3
    (board,) = small.glob("boards/*cub200*")
    links = [address.partition("#")[2] for address in Page(board).addresses() if "methods/ms.html#" in address]
    assert sorted(links) == sorted(anchors)


def test_a_method_page_tells_its_runs_and_which_are_missing_in_what(small: Path) -> None:
    page = re.sub(r"\s+", " ", Page(small / "methods" / "triplet.html").text)
    assert "Mean over 3 runs ± half width of its 95 % interval, in percent." in page
    assert "† Missing: run 1: fold 0 failed: collapsed (separated)." in page
    assert page.count("Missing:") == 1  # on the other board nothing is


def test_metrics_of_a_record_stand_in_the_order_of_the_tables(tmp_path: Path) -> None:
    records = site_records(METHODS[1:2], DATASETS[:1], *SETTINGS, n_trials=1)
    ordered = [replace(one, test=dict(sorted(one.test.items()))) if one.test else one for one in records]
    folder = built(ordered, tmp_path / "site")
    pages = {one.id: Page(folder / "records" / f"{one.id}.html").text for one in ordered}
    final = next(one for one in ordered if one.test)
    assert re.search(r"test \(%\)P@1 \d+\.\d\d, R-precision \d+\.\d\d, MAP@R \d+\.\d\d", pages[final.id])
    trial = next(one for one in ordered if one.identity.purpose == "search")
    assert "purposesearch" in pages[trial.id]


def test_a_record_and_its_conditions_hold_the_whole_provenance_together(small: Path) -> None:
    records = site_records((METHODS[1],), (DATASETS[0],), *SETTINGS)
    record = next(one for one in records if isinstance(one, FoldRecord))
    path = small / "records" / f"{record.id}.html"
    page = Page(path)
    shared = next(address for address in page.addresses() if "conditions" in address)
    told = page.text + Page(path.parent / shared).text
    made = record.provenance
    for wanted in (
        *made.versions, *made.versions.values(), made.device, made.code_revision, made.trunk_weights,
        made.created_at[:19], *(check.name for check in record.audit), *(check.detail for check in record.audit),
        str(record.seed), str(record.n_steps), str(record.best_step), "RMSprop", "BNInception", "7 checks passed",
        f"mlrc verify {record.id} --store STORE --data cub200:PATH",
    ):  # fmt: skip
        assert wanted in told, wanted
    assert f"MAP@R {100 * record.test['map_at_r']:.2f}" in told  # type: ignore[index]


def test_a_failed_record_says_why_and_claims_no_conditions_of_others(small: Path) -> None:
    (path,) = [
        path for path in small.glob("records/*.html") if "collapsed: no spread" in path.read_text(encoding="utf-8")
    ]
    assert HOSTILE in Page(path).text


def test_external_results_are_shown_and_neither_ranked_nor_said_to_be_repeatable(tmp_path: Path) -> None:
    records = site_records(METHODS[1:3], DATASETS[:1], *SETTINGS)
    values = {**records[0].identity.protocol["values"], "name": external.NAME}
    protocol = {"title": external.TITLE, "digest": "0" * 12, "values": values}
    found = [replace(one, identity=replace(one.identity, protocol=protocol)) for one in records]
    folder = built(found, tmp_path / "site")
    (board,) = (folder / "boards").iterdir()
    rows = [attributes for tag, attributes in Page(board).elements if tag == "tr" and "data-views" in attributes]
    assert all(view.startswith("||M") for row in rows[:2] for view in row["data-views"].split(";"))
    record = Page(next((folder / "records").iterdir())).text
    assert "there is no job to run again" in record
    assert "mlrc verify" not in record


def test_a_site_is_made_of_whatever_there_is(tmp_path: Path) -> None:
    """A search alone, one run, one model, one baseline, one method with a number."""
    searching = site_records(METHODS[1:3], DATASETS[:1], *SETTINGS, n_trials=2)
    for name, records in {
        "search": [record for record in searching if record.identity.purpose == "search"],
        "one run": site_records(METHODS[:3], DATASETS[:1], "finals.n_runs=1"),
        "baseline": site_records(METHODS[:1], DATASETS[:1], *SETTINGS),
        "one": site_records(METHODS[1:2], ("other",), *SETTINGS),
        "some folds": [one for one in site_records(METHODS[:2], ("other",), *SETTINGS) if isinstance(one, FoldRecord)],
    }.items():
        folder = built(records, tmp_path / name)
        (board,) = (folder / "boards").iterdir()
        text = Page(board).text
        assert ("missing†" in text) == (name in ("search", "some folds")), name
        assert len(list((folder / "records").iterdir())) == len(records)


@pytest.mark.parametrize("n_runs", [2, 3])
def test_below_three_runs_nobody_is_told_apart(tmp_path: Path, n_runs: int) -> None:
    records = site_records(("contrastive", "triplet"), ("things",), f"finals.n_runs={n_runs}")
    folder = built(records, tmp_path / "site")
    (board,) = (page.read_text() for page in (folder / "boards").iterdir())
    views = re.findall(r'data-views="([^;|]*)\|([^|]*)\|', board)
    assert len(views) == 2
    assert all(bool(letters) == (n_runs == 3) for _, letters in views)
    assert ("Nothing is bold: below 3 runs no method can be told from the best." in board) == (n_runs == 2)
    if n_runs == 2:
        assert sorted(rank for rank, _ in views) == ["1", "2"]


def test_equal_records_give_equal_bytes(tmp_path: Path) -> None:
    records = site_records(METHODS[:3], DATASETS[:1], *SETTINGS)
    found = [built(records, tmp_path / name) for name in ("a", "b")]
    one, other = ({path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")} for folder in found)
    assert one == other


def test_a_new_site_leaves_no_page_of_the_old_one_and_keeps_what_is_not_its_own(tmp_path: Path) -> None:
    records = site_records(METHODS[:3], DATASETS[:1], *SETTINGS)
    folder = tmp_path / "site"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/pages", encoding="utf-8")
    built(records, folder)
    (folder / "CNAME").write_text("example.org", encoding="utf-8")
    before = {path.name for path in folder.iterdir()}
    built([record for record in records if record.identity.method != METHODS[2]], folder)
    assert not (folder / "methods" / f"{METHODS[2]}.html").exists()
    assert (folder / "methods" / f"{METHODS[1]}.html").exists()
    assert {path.name for path in folder.iterdir()} == before >= {".git", "CNAME", "index.html"}
    assert (folder / ".git" / "HEAD").read_text(encoding="utf-8") == "ref: refs/heads/pages"


def test_a_place_that_is_no_site_is_never_touched(tmp_path: Path) -> None:
    records = site_records(METHODS[:2], DATASETS[:1], *SETTINGS)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work", encoding="utf-8")
    with pytest.raises(ReportError, match="no site of ours"):
        built(records, tmp_path / "thesis")
    with pytest.raises(ReportError, match="is no folder"):
        built(records, tmp_path / "thesis" / "chapter.tex")
    with pytest.raises(ReportError, match="cannot be written"):
        built(records, tmp_path / "thesis" / "chapter.tex" / "site")
    with pytest.raises(ReportError, match="mlrc run fills"):
        build_site([], [], tmp_path / "empty")
    assert [path.name for path in tmp_path.rglob("*")] == ["thesis", "chapter.tex"]


def test_a_site_that_cannot_be_finished_leaves_the_old_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = site_records(METHODS[:2], DATASETS[:1], *SETTINGS)
    folder = built(records, tmp_path / "site")
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}
    real = Path.rename

    def rename(path: Path, target: Path) -> Path:
        if path.name == "records" and ".partial" in str(path):
            raise OSError(28, "No space left on device")
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(ReportError, match="No space left on device"):
        built(site_records(METHODS[:3], DATASETS[:1], *SETTINGS), folder)
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == before


def test_twenty_methods_on_four_data_sets_are_below_three_megabytes_and_thirty_seconds(tmp_path: Path) -> None:
    records = site_records(METHODS, DATASETS, "finals.n_runs=5")
    assert len(records) == 2000
    tables = tables_of(records)
    began = time.process_time()
    made = build_site(tables, records, tmp_path / "site")
    assert time.process_time() - began < 30
    assert made.n_files > 2000
    assert made.n_bytes == sum(path.stat().st_size for path in (tmp_path / "site").rglob("*") if path.is_file())
    assert made.n_bytes < 3_000_000
