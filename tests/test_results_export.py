"""Exports: the same bits there and back, the same bytes for the same content; all that is damaged is refused whole."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from genuine import final_run, finals, fold, identity, study
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reports.frame import runs_frame
from reports.tabulation import result_tables
from results.errors import ResultsError
from results.exchange.export import exports, file_name, read_export, write_export
from results.exchange.merging import collect, export_files
from results.record import FoldRecord, Record
from results.store import Merged, Store

SEARCHED = [fold(identity("ms", 0, margin=0.1), number, 0.3) for number in range(4)]
RECORDS: list[Record] = [*finals("ms", 0.4, 1 / 3, margin=0.1), *SEARCHED]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_export(RECORDS, [study()], tmp_path / "ms.json")
    return tmp_path / "ms.json"


def at_later(record: Record) -> Record:
    return replace(record, provenance=replace(record.provenance, created_at="2030-01-01T00:00:00+00:00"))


# --- one file


def test_records_and_searches_come_back_as_they_were(path: Path) -> None:
    found = read_export(path)
    assert sorted(found.records, key=lambda record: record.id) == sorted(RECORDS, key=lambda record: record.id)
    assert found.studies == (study(),)


def test_equal_content_gives_equal_bytes_in_any_order(path: Path, tmp_path: Path) -> None:
    write_export(reversed(RECORDS), [study()], tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    found = read_export(path)
    write_export(found.records, found.studies, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_a_file_is_strict_json_with_a_schema_and_a_line_for_each_record(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    value = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in the file"))
    assert value["schema"] == 1
    assert [json.loads(line.rstrip(",")) for line in text.splitlines() if line.startswith('{"audit')] == [
        record for record in value["records"] if record["kind"] == "fold"
    ]


def test_a_file_that_cannot_be_written_leaves_the_one_before(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(ResultsError, match="lacks the record of fold 0"):
        write_export(RECORDS[1:], [], path)
    assert path.read_bytes() == before
    with pytest.raises(ResultsError, match="cannot be written"):
        write_export(RECORDS, [], path / "in a file.json")
    assert list(path.parent.iterdir()) == [path]


def test_what_could_not_be_read_is_not_written(path: Path) -> None:
    failed = final_run(identity("ms", 1), [None, 0.1, 0.1, 0.1], None)
    assert isinstance(failed[0], FoldRecord)
    with pytest.raises(ResultsError, match=r"U\+001B"):
        write_export([replace(failed[0], message="\x1b[31mred"), *failed[1:]], [], path.parent / "red.json")
    deep: dict[str, Any] = {}
    for _ in range(50):
        deep = {"": deep}
    with pytest.raises(ResultsError, match="nested deeper than 40 levels"):
        write_export([replace(failed[0], method_state=deep), *failed[1:]], [], path.parent / "deep.json")
    assert list(path.parent.iterdir()) == [path]


def test_a_store_is_cut_into_a_file_for_each_subject_without_runs_that_are_not_whole() -> None:
    other = final_run(identity("triplet", 1), [0.1] * 4, 0.2)
    records = [*RECORDS, *other, *final_run(identity("triplet", 2), [0.1] * 4, 0.2)[:3]]
    made, left_out = exports(records, [study()])
    assert [{record.identity.method for record in one.records} for one in made] == [{"ms"}, {"triplet"}]
    assert [len(one.studies) for one in made] == [1, 0]
    assert list(made[1].records) == other
    assert left_out == ["run 2 of 'triplet' lacks the record of fold 3"]


def test_names_are_readable_different_and_never_a_path() -> None:
    names = [
        file_name(exports(final_run(identity(method, 1), [0.1] * 4, 0.2), [])[0][0])
        for method in (
            "ms",
            "a/b.py:Loss",
            "a_b.py:Loss",
            "../../etc/passwd",
            "<script>",
            "距離",
            "x" * 500,
            "..",
            "CON",
        )
    ]
    assert names[0].startswith("small@1-things-ms-")
    assert len(set(names)) == len(names)
    assert all(name == Path(name).name and name.isascii() and len(name) < 200 and name[0] != "." for name in names)


# --- what is damaged, newer or hostile


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    value = json.loads(path.read_bytes())
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "newer": (lambda value: value.update(schema=2), "schema 2; this code reads up to 1. Update the package"),
    "no schema": (lambda value: value.pop("schema"), "found schema None"),
    "a schema that is true": (lambda value: value.update(schema=True), "found schema True"),
    "another kind": (lambda value: value.update(format="else"), "is not an export of results"),
    "a field too many": (lambda value: value.update(more=1), "unknown field 'more'"),
    "a field too few": (lambda value: value.pop("studies"), "missing field 'studies'"),
    "no list": (lambda value: value.update(records={}), "records: found {}"),
    "no record": (lambda value: value.update(records=[]), "holds no record"),
    "a record of a newer schema": (lambda value: value["records"][0].update(schema=2), "record schema 2"),
    "a record of no kind": (lambda value: value["records"][0].update(kind="x"), '"kind" is "fold" or "run"'),
    "a record that is none": (lambda value: value["records"].append(7), "not a record"),
    "a kind that is a list": (lambda value: value["records"][0].update(kind=[]), "not a record"),
    "a text for a number": (lambda value: value["records"][0].update(fold="0"), "fold: found '0'"),
    "a metric of 2": (lambda value: value["records"][0]["validation"].update(map_at_r=2), "wanted a fraction"),
    "no main score": (
        lambda value: value["records"][0]["test"].pop("map_at_r"), "test: map_at_r missing; a record that is done must"
    ),
    "an unknown field": (lambda value: value["records"][0].update(hack=1), "unknown field 'hack'"),
    "a missing fold": (lambda value: value["records"].pop(0), "lacks the record of fold 0"),
    "a search of another": (lambda value: value["studies"][0].update(method="x"), "is about the methods 'ms' and 'x'"),
    "two data sets": (
        lambda value: value["studies"][0].update(dataset_hash="0"), "is about dataset hash '0' and 'abab"
    ),
    "stray embeddings": (
        lambda value: value.update(embeddings={"../../../etc/passwd": "0" * 64}), "is not the id of a final fold"
    ),
    "a hash that is none": (
        lambda value: value.update(embeddings={value["records"][0]["id"]: "x"}), "wanted a SHA-256"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_a_file_that_is_not_what_it_should_be_is_refused_by_name(what: str, path: Path) -> None:
    change, said = CHANGES[what]
    with pytest.raises(ResultsError) as refused:
        read_export(changed(path, change))
    assert str(refused.value).startswith(f"{path}: ")
    assert said in str(refused.value)
    assert str(refused.value).isprintable()


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all values in a JSON value."""
    yield way
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*way, key))


ODD = st.sampled_from(
    [None, True, -1, 0, 2**70, 1e300, "", "x" * 10_000, "\x00", "../..", [], {}, [[]], {"": {}}, {"a": [1]}]
)


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_value_stands_in_whatever_place_it_is_read_or_refused_in_one_line(
    data: st.DataObject, tmp_path: Path
) -> None:
    path = tmp_path / "ms.json"
    write_export([*finals("ms", 0.4, margin=0.1), *SEARCHED[:1]], [study(best_value=0.3)], path)
    value = json.loads(path.read_bytes())
    *way, last = data.draw(st.sampled_from([way for way in places(value) if way]))
    owner = value
    for key in way:
        owner = owner[key]
    if data.draw(st.booleans()) and isinstance(owner, dict):
        del owner[last]
    else:
        owner[last] = copy.deepcopy(data.draw(ODD))
    path.write_text(json.dumps(value), encoding="utf-8")
    said = ""
    try:
        found = read_export(path)
    except ResultsError as error:
        said = str(error)
    else:
        write_export(found.records, found.studies, path)  # what was let in can be written again, kept, and reported on
        with Store.open(str(tmp_path / "store.db")) as store:
            store.merge(found.records, found.studies)
            result_tables(runs_frame(store.records()))
        (tmp_path / "store.db").unlink()
    assert said.isprintable()


@given(cut=st.floats(0, 1), flipped=st.integers(0, 255))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_with_one_byte_changed_or_cut_short_is_read_or_refused(path: Path, cut: float, flipped: int) -> None:
    whole = path.read_bytes()
    place = int(cut * (len(whole) - 1))
    try:
        for content in (whole[:place], whole[:place] + bytes([flipped]) + whole[place + 1 :]):
            path.write_bytes(content)
            said = ""
            try:
                read_export(path)
            except ResultsError as error:
                said = str(error)
            assert said.isprintable()
    finally:
        path.write_bytes(whole)


def test_numbers_of_numpy_become_plain_ones(path: Path) -> None:
    record = final_run(identity("ms", 1, margin=0.5), [0.5, None, None, None], None)[0]
    assert isinstance(record, FoldRecord)
    numpy = replace(
        record,
        seed=np.int64(record.seed),
        test={name: np.float32(value) for name, value in (record.test or {}).items()},
        identity=replace(record.identity, hyperparameters={"margin": np.float64(0.5)}),
    )
    others = final_run(record.identity, [0.5, None, None, None], None)[1:]
    write_export([numpy, *others], [], path)
    assert record in read_export(path).records


def test_a_byte_order_mark_is_accepted(path: Path) -> None:
    before = read_export(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_export(path) == before


# --- several files


def test_a_folder_is_read_with_the_folders_in_it_and_each_record_once(path: Path) -> None:
    write_export(finals("triplet", 0.1, 0.2), [], path.parent / "group" / "triplet.json")
    write_export([at_later(record) for record in RECORDS], [study()], path.parent / "group" / "ms.json")
    (path.parent / "notes.txt").write_text("no export", encoding="utf-8")
    found = collect(export_files([path.parent]))
    assert found.n_duplicates == len(RECORDS)
    assert len(found.records) == len(RECORDS) + 10
    assert {record.id for record in collect(export_files([path.parent])).records} == {
        record.id for record in found.records
    }


def test_a_link_to_a_folder_elsewhere_is_not_followed(path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "x.json").write_text("{}", encoding="utf-8")
    (path.parent / "loop").symlink_to(path.parent)
    (path.parent / "away").symlink_to(elsewhere)
    assert export_files([path.parent]) == [path]


def test_one_damaged_file_refuses_the_folder_and_is_named(path: Path) -> None:
    (path.parent / "other.json").write_text("[1, 2", encoding="utf-8")
    with pytest.raises(ResultsError, match=r"other\.json: is no JSON"):
        collect(export_files([path.parent]))


def contradicting() -> list[Record]:
    """The same jobs with another outcome: everything else follows from it."""
    return finals("ms", 0.5, 1 / 3, margin=0.1)


def test_files_that_contradict_each_other_are_refused_with_both_names_and_the_value(path: Path) -> None:
    write_export(contradicting(), [], path.parent / "other.json")
    with pytest.raises(ResultsError) as refused:
        collect(export_files([path.parent]))
    said = str(refused.value)
    assert all(part in said for part in ("ms.json and", "other.json", "contradict", "map_at_r 0.4 and 0.5"))


def test_of_a_fold_that_failed_once_and_is_done_elsewhere_the_done_one_counts(path: Path, tmp_path: Path) -> None:
    failed = final_run(RECORDS[0].identity, [None, 0.4, 0.4, 0.4], None)
    for order in ("a", "z"):
        write_export(failed, [], path.parent / f"{order}.json")
        done = [record for record in collect(export_files([path.parent])).records if record.id == failed[0].id]
        assert [one.outcome for one in done if isinstance(one, FoldRecord)] == ["done"]


def test_what_depends_on_the_machine_or_release_is_no_contradiction(path: Path) -> None:
    def elsewhere(record: Record) -> Record:
        audit = {"queries": 60, "left_out": 0, "smallest_r": 4, "largest_r": 9, "device": "cuda"}
        if isinstance(record, FoldRecord):
            return replace(at_later(record), peak_memory_bytes=1, seconds={}, in_force={"optimiser": {"lr": 0.1}})
        return replace(at_later(record), evaluation_audit=audit)

    write_export(map(elsewhere, RECORDS), [], path.parent / "elsewhere.json")
    assert collect(export_files([path.parent])).n_duplicates == len(RECORDS)


# --- into a store


def test_a_merge_takes_all_and_again_nothing(path: Path, tmp_path: Path) -> None:
    found = read_export(path)
    with Store.open(str(tmp_path / "store.db")) as store:
        assert store.merge(found.records, found.studies) == Merged(n_new=len(RECORDS), n_known=0, n_searches=1)
        assert store.merge(found.records, found.studies) == Merged(n_new=0, n_known=len(RECORDS), n_searches=0)
        assert sorted(store.records(), key=lambda record: record.id) == sorted(RECORDS, key=lambda record: record.id)
        assert store.studies() == [study()]


def test_a_merge_that_meets_a_contradiction_takes_nothing(tmp_path: Path) -> None:
    new = final_run(identity("ms", 2, margin=0.1), [0.1] * 4, 0.1)
    with Store.open(str(tmp_path / "store.db")) as store:
        before = final_run(identity("ms", 1, margin=0.1), [0.4] * 4, 0.4)
        store.merge(before, [study()])
        with pytest.raises(ResultsError, match=r"contradict each other: record .* Nothing was taken"):
            store.merge([*new, *final_run(identity("ms", 1, margin=0.1), [0.5] * 4, 0.5)], [])
        with pytest.raises(ResultsError, match="contradict each other: the search of 'ms'"):
            store.merge(new, [study(best_value=0.2)])
        assert {record.id for record in store.records()} == {record.id for record in before}
        assert store.studies() == [study()]


def test_of_two_states_of_a_search_the_one_that_is_further_is_kept(tmp_path: Path) -> None:
    early = study(n_finished=1, best_trial=0, best_value=0.1)
    with Store.open(str(tmp_path / "store.db")) as store:
        store.merge([], [early])
        assert store.merge([], [study()]).n_searches == 1
        assert store.merge([], [early]).n_searches == 0
        assert store.studies() == [study()]
