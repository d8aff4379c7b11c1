"""What a store remembers of the suites that were run on it, so that none of it changes without a word.

A suite's name stands for one suite; a place of images for one content; the test embeddings lie in one place.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from benchmark.bench import Bench
from benchmark.commands.suite_file import known_keys
from benchmark.errors import BenchmarkError
from benchmark.options import SuiteOptions
from benchmark.training.embeddings import Place, artifacts_place, check_place, note_place, noted_place
from protocols.derive import derivation
from results.store import Store

Content = dict[str, Any]


def settle(
    bench: Bench, store: Store, options: SuiteOptions, published: str | None, phases: Sequence[str], begin: bool = True
) -> Bench:
    """The bench with its place for test embeddings, once nothing contradicts what the store remembers.

    `begin` False: nothing is run, so nothing is written down.

    Raises:
        BenchmarkError: if the images changed since, if another suite has this name, or if the embeddings lie elsewhere.
    """
    _refuse_changed_data(bench, store, options.methods, phases)
    if options.name is not None:
        _refuse_other_suite(options.name, _content(bench, options, published), bench, store, begin)
    bench = replace(bench, shared=_place(bench, store, options.artifacts, begin))
    if begin:
        now = {"name": bench.index.name, "content_hash": bench.index.content_hash}
        store.put_note("data", bench.index.location, now)
    return bench


def _refuse_changed_data(bench: Bench, store: Store, methods: Sequence[str], phases: Sequence[str]) -> None:
    index = bench.index
    noted = store.note("data", index.location)
    if noted is not None:
        hashes = {noted["content_hash"]}
    elif "search" in phases:  # images of the same name in another place may be others
        return
    else:  # its searches were on the same images by another path, or should have been
        studies = store.studies(protocol_digest=bench.protocol.digest())
        hashes = {one.dataset_hash for one in studies if one.dataset_name == index.name and one.method in methods}
    found = sorted(hashes & {comparison.dataset_hash for comparison in store.comparisons()})
    if found and index.content_hash not in hashes:
        raise BenchmarkError(
            f"{index.location}: the images are not those that {store.name} has results of: their content hash was "
            f"{', '.join(found)} and is {index.content_hash}. Restore them (mlrc data check looks at them), or give "
            "another --store."
        )


def _content(bench: Bench, options: SuiteOptions, published: str | None) -> Content:
    """What the suite is: all that may change a number, by the keys of a suite file, without what has its default."""
    defaults = {item.name: item.default for item in fields(SuiteOptions)}
    content: Content = {
        "methods": sorted(set(options.methods)),
        "protocol": f"{bench.protocol.name}@{bench.protocol.version}",
        "set": derivation(bench.protocol.values()),
        "data": f"{bench.index.name} ({bench.index.content_hash})",
    }
    given = vars(options) | {"published": published}
    for spelt, key in known_keys().items():
        if key.is_content and spelt not in content and given.get(key.name) != defaults.get(key.name):
            content[spelt] = given[key.name]
    return content


def _refuse_other_suite(name: str, content: Content, bench: Bench, store: Store, begin: bool) -> None:
    noted = store.note("suite", name)
    if noted is not None and tuple(noted["comparison"]) in store.comparisons():  # else it never began
        then = noted["content"]
        if differs := [
            _differs(key, then, content) for key in {**then, **content} if then.get(key) != content.get(key)
        ]:
            raise BenchmarkError(
                f"suite {name!r} is another one in {store.name}: {'; '.join(differs)}. Give this one another name "
                "(--name); what both have in common is not run twice."
            )
    if begin:
        store.put_note("suite", name, {"content": content, "comparison": list(bench.comparison)})


def _differs(key: str, noted: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    then, now = (_said(values.get(key)) for values in (noted, content))
    return f"{key} was {then} and is {now}"


def _said(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "not given" if value in (None, "") else value if isinstance(value, str) else json.dumps(value)


def _place(bench: Bench, store: Store, given: str | None, begin: bool) -> Place | None:
    """Where the embeddings go, or None: beside the store. A folder that is gone gives way to the one that is named."""
    noted = noted_place(store)
    if given is None:
        if isinstance(noted, Path) and not noted.exists():
            raise BenchmarkError(
                f"{noted}: the folder with the test embeddings of {store.name} is not there. Mount or restore it, or "
                "name the folder that they were moved to with --artifacts."
            )
        return noted
    wanted, before = artifacts_place(given), noted or bench.artifacts.absolute()
    if wanted != before and not (isinstance(before, Path) and not before.exists()):
        raise BenchmarkError(
            f"--artifacts {wanted}: the test embeddings of {store.name} lie in {before}. Leave --artifacts out, or "
            "move them first."
        )
    if begin:
        check_place(wanted)
        note_place(store, wanted)
    return wanted
