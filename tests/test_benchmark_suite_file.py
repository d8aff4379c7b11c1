"""A suite file says what the command line says: every key has its flag, its type and its place."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from conftest import Command, Launch, ended, options
from typer.core import TyperCommand

from benchmark.commands.suite_file import known_keys, read_suite_file
from benchmark.errors import BenchmarkError
from benchmark.options import Out, Published, SuiteOptions, with_suite_options
from benchmark.places import data_beside, method_beside, store_beside

DOCS = (Path(__file__).parents[1] / "docs" / "suite.md").read_text(encoding="utf-8")


def command(*arguments: object) -> tuple[SuiteOptions, str | None, Path | None]:
    """What a command with all options of `mlrc run` is called with."""
    app, called = typer.Typer(), []

    @app.command()
    @with_suite_options
    def run(options: SuiteOptions, published: Published = None, out: Out = None) -> None:
        called.append((options, published, out))

    built = typer.main.get_command(app)
    assert isinstance(built, TyperCommand)
    built.main([str(argument) for argument in arguments], standalone_mode=False)
    return called[0]


def written(folder: Path, text: str) -> Path:
    path = folder / "suite.toml"
    path.write_text(text, encoding="utf-8")
    return path


# By key: a line of the file, and the same on the command line where `{}` is the file's folder.
SAME: dict[str, tuple[str, list[str]]] = {
    "methods": ('methods = ["ms", "xbm(own/loss.py:Loss)", "pml:CircleLoss"]', []),
    "protocol": ('protocol = "lite"', ["--protocol", "lite"]),
    "data": ('data = "birds"', ["--data", "{}/birds"]),
    "set": (
        'set = { max_steps = 3, optimiser.lr = 1e-3, kind = "balanced", recall_at = [1, 2] }',
        [
            *("--set", "max_steps=3", "--set", "optimiser.lr=0.001"),
            *("--set", 'kind="balanced"', "--set", "recall_at=[1, 2]"),
        ],
    ),
    "store": ('store = "a/b.db"', ["--store", "{}/a/b.db"]),
    "executor": ('executor = "inline"', ["--executor", "inline"]),
    "workers": ("workers = 3", ["--workers", "3"]),
    "threads": ("threads = 2", ["--threads", "2"]),
    "cuda-graphs": ("cuda-graphs = true", ["--cuda-graphs"]),
    "weights": ('weights = "w.pth"', ["--weights", "{}/w.pth"]),
    "search": ('search = "faiss"', ["--search", "faiss"]),
    "no-cache": ("no-cache = true", ["--no-cache"]),
    "keep-checkpoints": ("keep-checkpoints = true", ["--keep-checkpoints"]),
    "sampler": ('sampler = "tpe"', ["--sampler", "tpe"]),
    "parallel-trials": ("parallel-trials = 2", ["--parallel-trials", "2"]),
    "enqueue": ('enqueue = "published"', ["--enqueue", "published"]),
    "pruning": ("pruning = true", ["--pruning"]),
    "fork": ("fork = true", ["--fork"]),
    "artifacts": ('artifacts = "shared"', ["--artifacts", "{}/shared"]),
    "name": ('name = "Größe 距離"', ["--name", "Größe 距離"]),
    "scheduler": ('scheduler = "tcp://node7:8786"', ["--scheduler", "tcp://node7:8786"]),
    "scheduler-file": ('scheduler-file = "s.json"', ["--scheduler-file", "{}/s.json"]),
    "published": ('published = "mlrc:cub200"', ["--published", "mlrc:cub200"]),
    "out": ('out = "report"', ["--out", "{}/report"]),
}


def test_every_key_has_a_line_here() -> None:
    assert set(SAME) == set(known_keys())


@pytest.mark.parametrize("key", SAME)
def test_a_key_means_what_its_flag_means(key: str, tmp_path: Path) -> None:
    line, flags = SAME[key]
    methods = ["ms", f"xbm({tmp_path}/own/loss.py:Loss)", "pml:CircleLoss"]
    text = line if key == "methods" else f"{SAME['methods'][0]}\n{line}\n"
    found = command(written(tmp_path, text))
    assert found == command(*methods, *(flag.format(tmp_path) for flag in flags))
    assert key == "methods" or found != command(*methods)


def test_every_key_of_the_documentation_is_one(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", DOCS, flags=re.DOTALL)
    found = read_suite_file(written(tmp_path, example))
    assert found["settings"] == ["max_steps=2000", "search.n_trials=20"]
    assert found["methods"][-1] == f"{tmp_path}/losses/ours.py:OurLoss"
    placed = [key for key, value in known_keys().items() if any(map(callable, value.marks)) and key != "methods"]
    assert sorted(placed) == sorted(
        re.findall(r"`([a-z-]+)`", DOCS.partition("**Paths are")[2].partition("and a loss")[0])
    )


def test_what_is_typed_beside_a_file_wins(tmp_path: Path) -> None:
    text = 'methods = ["ms"]\nworkers = 3\nprotocol = "lite"\nthreads = 2\nno-cache = true\n'
    path = written(tmp_path, text + "set = { max_steps = 3, lr = 0.1 }\n")
    found, *_ = command(path, "triplet", "--workers", "1", "-p", "mini", "--set", "lr=0.2")
    assert (found.methods, found.workers, found.protocol, found.threads) == (["triplet"], 1, "mini", 2)
    assert found.no_cache
    assert found.settings == ["max_steps=3", "lr=0.1", "lr=0.2"]  # of a field that is set twice, the last holds
    assert command(path, "--threads", "1")[0].threads == 1  # a default that is typed is typed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('methds = ["ms"]', "no key 'methds'. Did you mean 'methods'? Known: methods, protocol, data, set, store"),
        ("keep_checkpoints = true", "no key 'keep_checkpoints'. Did you mean 'keep-checkpoints'?"),
        ("max_steps = 3", "no key 'max_steps'. Known: "),
        ('methods = "ms"', "methods: found 'ms', wanted a list."),
        ("methods = [1]", "methods[0]: found 1, wanted a text."),
        ('workers = "3"', "workers: found '3', wanted a whole number."),
        ("workers = 2.0", "workers: found 2.0, wanted a whole number."),
        ("no-cache = 1", "no-cache: found 1, wanted true or false."),
        ('sampler = "gpp"', "sampler: found 'gpp', wanted one of gp, tpe, random, grid."),
        ('search = "fais"', "search: found 'fais', wanted one of torch, faiss."),
        ('set = ["max_steps=3"]', "set: found ['max_steps=3'], wanted a table of fields, such as { max_steps = 200 }."),
        ("set.lr = nan", "set.lr: found nan, wanted a finite number"),
        ("set.optimiser.lr = 2024-05-17", "set.optimiser.lr: found type date"),
        ("weights = 1", "weights: found 1, wanted a text."),
        ("methods = [", "is no TOML: Invalid value (at end of document)."),
        ("threads = 1\nthreads = 2", "is no TOML: Cannot overwrite a value (at"),
        ("threads = 1", "it names no method; add, for example, methods ="),
        ("methods = []", "it names no method"),
    ],
)
def test_what_a_file_cannot_say_is_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BenchmarkError) as caught:
        command(path)
    assert str(caught.value).startswith(f"{path}: {said}")
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_one_line(mlrc: Command, tmp_path: Path) -> None:
    assert "nowhere.toml: cannot be read (No such file" in mlrc("run", "nowhere.toml").refusal()
    written(tmp_path, 'methods = ["ms"]\npublished = "mlrc:cub200"\n')
    assert "suite.toml and other.toml: one suite file at a time." in mlrc("run", "suite.toml", "other.toml").refusal()
    assert "it has no part in a search" in mlrc("search", "suite.toml").refusal()
    (tmp_path / "latin.toml").write_bytes('name = "Größe"'.encode("latin-1"))
    assert "latin.toml: is not UTF-8" in mlrc("run", "latin.toml").refusal()


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "with a byte order mark"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["unix", "windows"])
def test_a_file_is_utf_8_with_or_without_a_mark(mark: bytes, newline: bytes, tmp_path: Path) -> None:
    path = tmp_path / "größe 距離.toml"
    lines = [b'methods = ["ms"]', 'data = "données 距離"'.encode()]
    path.write_bytes(mark + newline.join(lines) + newline)
    assert read_suite_file(path)["data"] == f"{tmp_path}/données 距離"


def test_names_of_any_script_work_under_the_c_locale(launch: Launch, images: Path, tmp_path: Path) -> None:
    """In the file, its path and what it names; and where text that is printed would not be UTF-8 by itself."""
    folder = tmp_path / "données 距離"
    shutil.copytree(images, folder / "größe")
    text = (
        'methods = ["untrained"]\ndata = "größe"\nstore = "é.db"\nexecutor = "inline"\nout = "表"\n[set]\nn_runs = 1\n'
    )
    (folder / "süite.toml").write_text(f"{text}n_folds = 2\n", encoding="utf-8-sig")
    done = ended(launch("run", folder / "süite.toml", LC_ALL="C", PYTHONIOENCODING="ascii"))
    assert done.code == 0, done.err
    assert "Data set größe (" in done.out
    assert "Data set größe (" in (folder / "表" / "results.md").read_text(encoding="utf-8")
    assert (folder / "é.db").exists()


@pytest.mark.parametrize(
    ("place", "text", "meant"),
    [
        (data_beside, "birds", "conf/birds"),
        (data_beside, "cub200:birds", "cub200:conf/birds"),
        (data_beside, "cub200:/data/birds", "cub200:/data/birds"),
        (data_beside, "shapes:shifted?train=8", "shapes:shifted?train=8"),
        (data_beside, "~/birds", "~/birds"),
        (store_beside, "a.db", "conf/a.db"),
        (store_beside, "sqlite:///a.db", "sqlite:///conf/a.db"),
        (store_beside, "sqlite:////a.db", "sqlite:////a.db"),
        (store_beside, "postgresql+psycopg://me@host/db", "postgresql+psycopg://me@host/db"),
        (method_beside, "own.py:Loss", "conf/own.py:Loss"),
        (method_beside, "hpl(a b/own.py:Loss)", "hpl(conf/a b/own.py:Loss)"),
        (method_beside, "/own.py:Loss", "/own.py:Loss"),
        (method_beside, "pml:CircleLoss", "pml:CircleLoss"),
        (method_beside, "ccp(contrastive)", "ccp(contrastive)"),
    ],
)
def test_a_relative_path_lies_beside_the_file(place: Any, text: str, meant: str) -> None:
    assert place(Path("conf"), text) == meant


def test_a_folder_with_a_colon_in_its_name_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a:b").mkdir()
    assert data_beside(tmp_path, "a:b") == f"{tmp_path}/a:b"


def test_a_suite_in_a_file_gives_the_table_of_the_same_suite_typed(mlrc: Command, images: Path, tmp_path: Path) -> None:
    typed = options(images, tmp_path / "typed.db")
    fields = "\n".join(typed[place + 1].replace("=", " = ", 1) for place, item in enumerate(typed) if item == "--set")
    (tmp_path / "conf").mkdir()
    written(
        tmp_path / "conf",
        f'methods = ["untrained", "pixels"]\ndata = "{images}"\nstore = "filed.db"\n'
        f'executor = "inline"\nout = "report"\n[set]\n{fields}\n',
    )
    filed = mlrc("run", "conf/suite.toml", "--json")
    assert filed.code == 0, filed.err
    assert filed.json == mlrc("run", "untrained", "pixels", *typed, "--json").json
    assert (tmp_path / "conf" / "filed.db").exists()
    assert (tmp_path / "conf" / "report" / "results.md").exists()
    left = mlrc("plan", "conf/suite.toml", "--json").json
    assert left["total"]["jobs"] == 0


@pytest.mark.parametrize("line", ['out = ""', 'store = ""', 'methods = [""]'])
def test_an_empty_value_is_no_path(line: str, mlrc: Command, tmp_path: Path) -> None:
    text = line if line.startswith("methods") else f'methods = ["untrained"]\n{line}'
    (tmp_path / "suite.toml").write_text(text, encoding="utf-8")
    assert f"{line.split()[0]} is empty; give it a value, or leave it out" in mlrc("run", "suite.toml").refusal()
