"""`mlrc data fetch` and `mlrc data list`: from a server to a data set that `data check` passes, or one line why not."""

import hashlib
import json
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Command, Launch, ended, lines_of
from served import Served, Server, packed, serving, sha256_of
from standard_trees import (
    HTML,
    cars_by_class_tree,
    cub_tree,
    inaturalist_tree,
    inshop_tree,
    mnist_tree,
    sop_tree,
)

from protocols.datasets import download
from protocols.datasets.files import size_text
from protocols.datasets.sources import SOURCES, Archive
from protocols.datasets.standard import STANDARD


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """CUB-200-2011 as it is published, but small."""
    tree = cub_tree(tmp_path / "made" / "CUB_200_2011", n_classes=16, per_class=10)
    return packed(tree, tmp_path / "made" / "CUB_200_2011.tgz")


@pytest.fixture
def published(archive: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """That archive at the address that the project knows, with its MD5."""
    md5 = hashlib.md5(archive.read_bytes()).hexdigest()
    small = Archive(archive.name, archive.stat().st_size, server.put(archive), md5)
    monkeypatch.setitem(SOURCES, "cub200", replace(SOURCES["cub200"], archives=(small,)))
    return server


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"made"}


def files_of(name: str, made: Path) -> list[Path]:
    """The files in which each data set comes."""
    if name == "cub200":
        return [packed(cub_tree(made / "CUB_200_2011"), made / "CUB_200_2011.tgz")]
    if name == "sop":
        return [packed(sop_tree(made / "Stanford_Online_Products"), made / "Stanford_Online_Products.zip")]
    if name == "cars196":
        return [packed(cars_by_class_tree(made / "cars"), made / "stanford-cars.zip", around=False)]
    if name == "mnist":
        return sorted(mnist_tree(made).iterdir())
    if name == "inshop":
        tree = inshop_tree(made, partition=".", images=".")
        return [packed(tree / "img", made / "img.zip"), made / "list_eval_partition.txt"]
    tree = inaturalist_tree(made)
    lists = [packed(path, made / f"{path.name}.tar.gz") for path in sorted(tree.glob("*.json"))]
    return [*lists, packed(tree / "train_val2019", made / "train_val2019.tar.gz")]


@pytest.mark.parametrize("name", STANDARD)
def test_every_data_set_goes_from_its_files_to_one_that_is_checked(
    mlrc: Command, server: Server, tmp_path: Path, name: str
) -> None:
    (tmp_path / "made").mkdir()
    given = [part for path in files_of(name, tmp_path / "made") for part in ("--from", server.put(path))]
    sums = [part for path in server.files for part in ("--checksum", sha256_of(tmp_path / "made" / path))]
    done = mlrc("data", "fetch", name, "here", *given, *sums, "--json")
    assert done.code == 0, done.err
    assert (done.json["is_new"], done.json["data"]) == (True, f"{name}:{tmp_path / 'here'}")
    assert done.json["differs_from_published"]
    assert left_in(tmp_path) == {"here"}
    checked = mlrc("data", "check", done.json["data"], "--json")
    assert (checked.json["unreadable"], checked.json["n_images"]) == ([], done.json["n_images"]), checked.err
    assert checked.code == 2  # as it is smaller than the published one


def test_the_published_address_and_checksum_need_no_option(mlrc: Command, published: Server, tmp_path: Path) -> None:
    done = mlrc("data", "fetch", "cub200", "birds")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == f"CUB-200-2011 is in {tmp_path / 'birds'}: 160 images of 16 classes."
    assert "Unlike the published counts: images: found 160, published 11,788." in done.out
    assert done.out.splitlines()[-1] == f"Next: mlrc data check cub200:{tmp_path / 'birds'}"
    assert [line.partition(",")[0] for line in done.err.splitlines()] == [
        "fetching CUB_200_2011.tgz", "checking CUB_200_2011.tgz", "unpacking CUB_200_2011.tgz", "reading CUB-200-2011",
    ]  # fmt: skip
    receipt = json.loads((tmp_path / "birds" / "fetched.json").read_text(encoding="utf-8"))
    assert receipt["archives"][0]["sha256"] == sha256_of(tmp_path / "made" / "CUB_200_2011.tgz")


def test_a_finished_fetch_does_nothing_and_says_so(mlrc: Command, published: Server, tmp_path: Path) -> None:
    (tmp_path / "birds").mkdir()  # empty: as good as none
    assert mlrc("data", "fetch", "cub200", "birds").code == 0
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    again = mlrc("data", "fetch", "cub200", "birds")
    assert (again.code, again.err) == (0, "")
    assert f"CUB-200-2011 is already in {tmp_path / 'birds'}: 160 images of 16 classes." in again.out
    assert again.out.splitlines()[-1] == "Nothing left to do."
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert len(published.asked["CUB_200_2011.tgz"]) == 1
    assert (
        mlrc("data", "fetch", "sop", "birds").refusal()
        == f"{tmp_path / 'birds'}: holds cub200. Choose a new folder for sop."
    )


def test_a_wrong_checksum_is_told_before_anything_is_unpacked(
    mlrc: Command, archive: Path, server: Server, tmp_path: Path
) -> None:
    url = server.put(archive)
    line = mlrc("data", "fetch", "cub200", "here", "--from", url).err.splitlines()[-1]
    assert f"wanted {SOURCES['cub200'].archives[0].md5}: a damaged or another file, which was removed." in line
    assert left_in(tmp_path) == {"here.partial"}
    assert left_in(tmp_path / "here.partial" / "downloads") == {"CUB_200_2011.tgz.source.json"}
    assert left_in(tmp_path / "here.partial") <= {"lock", "downloads"}
    trusted = line.split()[-1]
    assert trusted == sha256_of(archive)
    done = mlrc("data", "fetch", "cub200", "here", "--from", url, "--checksum", trusted.upper())
    assert done.code == 0, done.err
    assert len(server.asked[archive.name]) == 2


def test_a_file_of_ones_own_is_never_removed_and_needs_no_server(mlrc: Command, archive: Path, tmp_path: Path) -> None:
    refused = mlrc("data", "fetch", "cub200", "here", "--from", archive)
    assert refused.code == 2
    assert "a damaged or another file. Fetch it again" in refused.err
    other = archive.rename(archive.with_name("a mirror's.tgz"))
    done = mlrc("data", "fetch", "cub200", "here", "--from", other)
    assert done.code == 0
    assert f"a mirror's.tgz: no checksum is published; its SHA-256 is {sha256_of(other)}." in done.err
    assert other.exists()


@pytest.mark.parametrize("name", ["CUB_200_2011.tgz", "birds.tgz", "page.html"])
def test_a_web_page_in_place_of_ones_own_file_is_known_before_its_checksum_and_answered_with_the_way_by_hand(
    mlrc: Command, tmp_path: Path, name: str
) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / name).write_text(HTML, encoding="utf-8")
    line = mlrc("data", "fetch", "cub200", "here", "--from", f"made/{name}").refusal()
    assert line.startswith(f"--from made/{name}: a web page, not the file that was wanted: ")
    for part in ("By hand: get CUB_200_2011.tgz (", SOURCES["cub200"].page, "--from CUB_200_2011.tgz", "cub200:FOLDER"):
        assert part in line
    assert "checksum" not in line
    assert left_in(tmp_path) == set()


@pytest.mark.parametrize(
    "path", ["a/..", "x%2F..%2F", "content", "lock", "downloads", "?id=12&export=download", "a%5C..%5Cb"]
)
def test_whatever_an_address_ends_in_is_a_name_inside_the_working_folder(
    mlrc: Command, archive: Path, server: Server, tmp_path: Path, path: str
) -> None:
    server.any_path = Served(archive.read_bytes())
    done = mlrc("data", "fetch", "cub200", "deep/here", "--from", server.url(path))
    assert done.code == 0, done.err
    assert left_in(tmp_path) == {"deep"}
    assert left_in(tmp_path / "deep") == {"here"}
    assert left_in(tmp_path / "deep" / "here") == {"CUB_200_2011", "fetched.json"}


def test_what_is_no_such_data_set_never_gets_its_name(mlrc: Command, server: Server, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    other = packed(sop_tree(tmp_path / "made" / "sop"), tmp_path / "made" / "sop.zip")
    line = mlrc("data", "fetch", "cub200", "here", "--from", server.put(other)).err.splitlines()[-1]
    assert line.startswith("error: what was unpacked is no CUB-200-2011: ")
    assert "no images.txt in it or up to 4 folders below" in line
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize(
    ("served", "said"),
    [
        (Served(HTML.encode()), "answered with a web page"),
        (Served(b"", moved_to="/login"), "answered with a web page after a redirect to"),
        (Served(b"x" * 999, statuses=[404]), "answered 404 (Not Found)"),
        (Served(b"x" * 999, statuses=[401]), "a login is asked for"),
        (
            Served(b"x" * 999, ranges=False, cut_at=[500] * 9),
            "the transfer ended after 500 bytes of 999 bytes, 5 times",
        ),
        (Served(b"x", length=10**18), "are free there"),
    ],
)
def test_what_a_server_gives_instead_is_one_line_with_the_way_by_hand(
    mlrc: Command, published: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, served: Served, said: str
) -> None:
    monkeypatch.setattr(download, "BACKOFF_S", 0.001)
    published.files |= {"CUB_200_2011.tgz": served, "login": Served(HTML.encode())}
    failed = mlrc("data", "fetch", "cub200", "birds")
    assert (failed.code, failed.out) == (2, "")
    (line,) = [line for line in failed.err.splitlines() if line.startswith("error: ")]
    for part in (
        said,
        "By hand: get CUB_200_2011.tgz (",
        "see https://www.vision.caltech.edu/datasets/cub_200_2011/.",
        f"mlrc data fetch cub200 {tmp_path / 'birds'} --from CUB_200_2011.tgz",
        f"cub200:FOLDER, which is read from {STANDARD['cub200'].layouts}.",
    ):
        assert part in line
    assert not (tmp_path / "birds").exists()


def test_a_data_set_larger_than_the_disk_is_refused_before_the_first_byte(
    mlrc: Command, published: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    (known,) = SOURCES["cub200"].archives
    large = replace(SOURCES["cub200"], archives=(replace(known, size=10**17),))
    monkeypatch.setitem(SOURCES, "cub200", large)
    line = mlrc("data", "fetch", "cub200", "birds").refusal()
    assert "CUB-200-2011, packed and unpacked, needs 200000000 GB" in line
    assert published.asked == {}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cars196", ["Stanford's addresses are gone", "get car_ims.tgz (MD5 d5c8f0aa497503f355e17dc7886c3f14)"]),
        ("inshop", ["ask for an agreement first", "--from img.zip --from list_eval_partition.txt"]),
    ],
)
def test_what_has_no_open_address_is_answered_with_the_way_by_hand(
    mlrc: Command, tmp_path: Path, name: str, said: list[str]
) -> None:
    line = mlrc("data", "fetch", name, "here").refusal()
    for part in (f"{STANDARD[name].title} cannot be fetched", *said, SOURCES[name].page, STANDARD[name].layouts):
        assert part in line
    assert left_in(tmp_path) == set()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["cub20", "here"], "no data set named 'cub20' to fetch. Did you mean 'cub200'? Known: cub200, cars196"),
        (["CUB200", "here"], "no data set named 'CUB200' to fetch. Did you mean 'cub200'?"),
        (["shapes:shifted", "here"], "needs no fetching"),
        (["cub200"], "Missing argument 'FOLDER'. See mlrc data fetch --help."),
        (["cub200", "full"], "full: is not empty, and mlrc data fetch has not filled it."),
        (["cub200", "full/a.txt"], "a.txt: is a file; wanted a folder"),
        (["cub200", "full/a.txt/b"], "a.txt"),
        (["cub200", "here", "--from", "nowhere.tgz"], "--from nowhere.tgz: no such file."),
        (
            ["cub200", "here", "--from", "full"],
            "--from full: is a folder, so nothing is left to fetch: use cub200:full.",
        ),
        (["cub200", "here", "--from", "ftp://a.b/c.tgz"], "--from ftp://a.b/c.tgz: wanted an address"),
        (["cub200", "here", "--from", "http://a.b/c d.tgz"], "--from http://a.b/c d.tgz: wanted an address"),
        (["cub200", "here", "--from", "http://"], "--from http://: wanted an address"),
        (["cub200", "here", "--from", "http://a:b/c.tgz"], "--from http://a:b/c.tgz: wanted an address"),
        (["cub200", "here", "--from", "http://[::1/c.tgz"], "--from http://[::1/c.tgz: wanted an address"),
        (["cub200", "here", "--from", "full/a.txt", "--from", "full/a.txt"], "two files are named a.txt"),
        (["cub200", "here", "--checksum", "12"], "--checksum 12: wanted an MD5 (32 hexadecimal digits) or a SHA-256"),
        (["cub200", "here", "--from"], "--from"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    mlrc: Command, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.txt").write_text("mine", encoding="utf-8")
    assert said in mlrc("data", "fetch", *arguments).refusal()
    assert left_in(tmp_path) == {"full"}
    assert left_in(tmp_path / "full") == {"a.txt"}


@pytest.mark.parametrize(("end", "code"), [(signal.SIGINT, 3), (signal.SIGKILL, -9)])
def test_an_interrupted_fetch_goes_on_with_the_same_command(
    launch: Launch, server: Server, archive: Path, tmp_path: Path, end: signal.Signals, code: int
) -> None:
    command = ("data", "fetch", "cub200", "here", "--from", server.put(archive), "--checksum", sha256_of(archive))
    half = archive.stat().st_size // 2
    server.files[archive.name].stalls_at = half
    process = launch(*command)
    assert server.stalled.wait(60)
    partial = tmp_path / "here.partial" / "downloads" / "CUB_200_2011.tgz.partial"
    for _ in range(1000):
        if partial.exists():
            break
        time.sleep(0.01)
    time.sleep(0.5)  # by now it waits for the rest
    process.send_signal(end)
    stopped = ended(process)
    assert stopped.code == code
    if end == signal.SIGINT:
        assert lines_of(stopped)[-1].startswith("Interrupted. ")
    assert not (tmp_path / "here").exists()
    kept = partial.stat().st_size
    done = ended(launch(*command))
    assert done.code == 0, done.err
    assert server.asked[archive.name][1:] == ([f"bytes={kept}-"] if kept else [""])
    assert left_in(tmp_path) == {"here"}


def test_two_processes_do_not_fetch_into_one_folder(
    mlrc: Command, launch: Launch, server: Server, archive: Path
) -> None:
    command = ("data", "fetch", "cub200", "here", "--from", server.put(archive))
    server.files[archive.name].stalls_at = 100
    launch(*command)
    assert server.stalled.wait(60)
    assert "here.partial: another process fetches into it." in mlrc(*command).refusal()


def test_what_an_interrupted_unpacking_left_is_unpacked_anew(mlrc: Command, published: Server, tmp_path: Path) -> None:
    stale = tmp_path / "birds.partial" / "content" / "CUB_200_2011"
    stale.mkdir(parents=True)
    (stale / "images.txt").write_text("cut", encoding="utf-8")
    assert mlrc("data", "fetch", "cub200", "birds").code == 0
    shutil.copytree(tmp_path / "birds", tmp_path / "birds.partial")  # as a kill after the rename leaves it
    assert mlrc("data", "fetch", "cub200", "birds").code == 0
    assert left_in(tmp_path) == {"birds"}


def test_the_list_names_every_data_set_with_its_counts_terms_and_layouts(mlrc: Command) -> None:
    lines = {line["name"]: line for line in mlrc("data", "list", "--json").json}
    assert list(lines) == [*STANDARD, "folder", "shapes:centred", "shapes:shifted"]
    assert set(SOURCES) == set(STANDARD)
    for name, published in STANDARD.items():
        assert (lines[name]["images"], lines[name]["classes"]) == (
            published.counts["images"],
            published.counts["classes"],
        )
        assert (lines[name]["data"], lines[name]["layouts"]) == (f"{name}:PATH", published.layouts)
        assert lines[name]["terms"]
    assert lines["sop"]["fetch"] == "yes, 3.08 GB"
    assert lines["inshop"]["fetch"] == lines["cars196"]["fetch"] == "by hand"
    assert "ImageNet" in lines["cub200"]["caution"]
    shown = mlrc("data", "list")
    assert all(name in shown.out for name in lines)
    assert "research" in mlrc("data", "list", "cub200").out
    for name in ("cub20", "CUB200"):
        assert "Did you mean 'cub200'?" in mlrc("data", "list", name).refusal()


def test_generated_data_sets_have_the_counts_that_are_listed(mlrc: Command) -> None:
    for name in ("shapes:centred", "shapes:shifted"):
        (line,) = mlrc("data", "list", name, "--json").json
        found = mlrc("data", "check", name, "--json").json
        assert (found["n_images"], found["n_classes"]) == (line["images"], line["classes"])


@pytest.mark.parametrize(
    ("n_bytes", "said"),
    [(0, "0 bytes"), (999, "999 bytes"), (1_500, "1.5 kB"), (11_594_722, "11.6 MB"), (74e9, "74 GB"), (3e11, "300 GB")],
)
def test_sizes_are_told_in_the_unit_that_suits_them(n_bytes: float, said: str) -> None:
    assert size_text(n_bytes) == said
