"""Eight processes write 200 records each into one store while a reader opens and reads it in a loop, on both databases.

Prints one line of JSON a database: seconds, records a second, the slowest write, the errors that were met and tried
again inside the store (retries), and those that reached a writer or the reader (errors). Ends with 1 if a record is
lost or doubled or an error reached anybody. PostgreSQL is left out where its server is not installed.

    python tests/benchmarks/store_load.py [writers] [records of each]
"""

import json
import multiprocessing
import sys
import tempfile
import time
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import event

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from postgres import NO_SERVER, PostgreSQL, programs  # noqa: E402
from test_results_store import fold_record  # noqa: E402

from results.store import Store  # noqa: E402

SPAWN = multiprocessing.get_context("spawn")


class Written(NamedTuple):
    """What one process met."""

    slowest_s: float
    retries: int
    errors: list[str]


def write(address: str, writer: int, n_records: int, begin: Event, written: "Queue[Written]") -> None:
    """Its own records, and those that all write."""
    retries, slowest_s, errors = [0], 0.0, []

    def met(_: object) -> None:
        retries[0] += 1

    try:
        with Store.open(address) as store:
            event.listen(store._database._engine, "handle_error", met)
            begin.wait()
            for number in range(n_records):
                for record in (fold_record(f"method-{writer}", fold=number), fold_record("everybody's", fold=number)):
                    began = time.monotonic()
                    store.add(record)
                    slowest_s = max(slowest_s, time.monotonic() - began)
    except Exception as error:  # it is what this looks for
        errors.append(f"writer {writer}: {error}")
    written.put(Written(slowest_s, retries[0], errors))


def read(address: str, end: Event, written: "Queue[Written]") -> None:
    """All records, again and again, as a viewer that comes and goes; none may ever be gone again."""
    n_before, errors = 0, []
    try:
        while not end.is_set():
            with Store.open(address) as store:
                n_found = len(store.records())
            if n_found < n_before:
                errors.append(f"reader: {n_before} records, then {n_found}")
            n_before = n_found
    except Exception as error:
        errors.append(f"reader: {error}")
    written.put(Written(0.0, 0, errors))


def load(database: str, address: str, n_writers: int, n_records: int) -> bool:
    """Measure, print, and say whether all went well."""
    begin, end, written = SPAWN.Event(), SPAWN.Event(), SPAWN.Queue()
    writers = [
        SPAWN.Process(target=write, args=(address, writer, n_records, begin, written)) for writer in range(n_writers)
    ]
    reader = SPAWN.Process(target=read, args=(address, end, written))
    for process in (*writers, reader):
        process.start()
    time.sleep(10.0)  # all have imported what they need
    began = time.monotonic()
    begin.set()
    found = [written.get() for _ in writers]
    seconds = time.monotonic() - began
    end.set()
    found.append(written.get())
    for process in (*writers, reader):
        process.join()
    with Store.open(address) as store:
        ids = [record.id for record in store.records()]
    methods = ["everybody's", *(f"method-{writer}" for writer in range(n_writers))]
    wanted = {fold_record(method, fold=number).id for method in methods for number in range(n_records)}
    report = {
        "benchmark": "store_load",
        "database": database,
        "writers": n_writers,
        "seconds": round(seconds, 2),
        "records": len(ids),
        "lost": len(wanted - set(ids)),
        "doubled": len(ids) - len(set(ids)),
        "writes_a_second": round(2 * n_writers * n_records / seconds),
        "slowest_write_s": round(max(one.slowest_s for one in found), 3),
        "retries": sum(one.retries for one in found),
        "errors": [error for one in found for error in one.errors],
    }
    print(json.dumps(report), flush=True)
    return set(ids) == wanted and len(ids) == len(wanted) and not report["errors"]


def main() -> int:
    """Both databases, one after the other."""
    n_writers, n_records = (int(text) for text in (*sys.argv[1:3], *("8", "200")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as folder:
        is_good = load("sqlite", str(Path(folder) / "mlrc.db"), n_writers, n_records)
    folder_of_server = programs()
    if folder_of_server is None:
        print(json.dumps({"benchmark": "store_load", "database": "postgresql", "left_out": NO_SERVER}))
        return int(not is_good)
    server = PostgreSQL(folder_of_server, fsync="on")
    try:
        return int(not (load("postgresql", server.url(), n_writers, n_records) and is_good))
    finally:
        server.remove()


if __name__ == "__main__":
    sys.exit(main())
