"""Cost of a lease to homes without a common folder behind many manifests, rows of a Postgres (decision 0029).

    python -m tests.benchmarks.control control_manifests [--json]

Medians in milliseconds by how many rows the stream has, on the loopback: ``nothing_new`` and ``one_new`` are what the
taker of a lease copies, ``put`` is a manifest that is written. ``new_machine_s``: a machine that copies 10,000 rows.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lakehouse.storage.atomic_files import write_json, write_text
from lakehouse.storage.control import place as control
from lakehouse.storage.control.copies import copy_parts, putting
from lakehouse.storage.control.place import Place, place_of
from lakehouse.storage.tables.tables_place import use as use_tables
from tests.storage.control.postgres import running
from tests.support.stores.s3 import BUCKET, named

SIZES, QUICK_SIZES = (10_000, 100_000, 1_000_000), (100,)
TURNS, PART, NEW_MACHINE = 30, "raw/t", 10_000
CONTENT = json.dumps(
    {"files": [{"path": "landing/0000000000.csv", "size": 1, "mtime_ns": 1}], "note": "x" * 200}
)
FILL = (
    "INSERT INTO tidemark_files SELECT :home, 'manifests/t/' || lpad(n::text, 10, '0') || '.json', :part, n, :content "
    "FROM generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) AS n"
)


def figures(quick: bool) -> dict[str, object]:
    """Return medians by number of rows, or why there are none."""
    found: dict[str, object] = {}
    try:
        with named(), running() as database, tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
            for size in QUICK_SIZES if quick else SIZES:
                found |= _behind(_home(Path(folder) / str(size), database.url), size)
    except pytest.skip.Exception as reason:
        return {"skipped": str(reason)}
    return found


def _home(root: Path, url: str) -> Place:
    """Return the place of a stream's lease in a home of its own that shares rows."""
    root.mkdir()
    use_tables(root, f"s3://{BUCKET}/{root.name}")
    control.use(root, url)
    place = place_of(root / PART)
    assert place is not None
    taken = place.session.take(place.home, PART, "a benchmark")
    assert taken is not None
    return place


def _behind(place: Place, size: int) -> dict[str, object]:
    _fill(place, 1, size)
    place.session.change("ANALYZE tidemark_files")
    _forget(place, size)
    last, taken = size, {name: list[float]() for name in ("nothing_new", "one_new", "put")}
    for _ in range(TURNS):
        taken["nothing_new"].append(_ms(lambda: copy_parts(place)))
        last += 1
        _fill(place, last, last)
        taken["one_new"].append(_ms(lambda: copy_parts(place)))
        last += 1
        path = place.root / "manifests" / "t" / f"{last:010}.json"
        taken["put"].append(_ms(partial(_put, path)))
    found: dict[str, object] = {
        f"{name}_{size}_ms": round(statistics.median(each), 2) for name, each in taken.items()
    }
    if size == NEW_MACHINE:
        _forget(place, 0)
        found["new_machine_s"] = round(_ms(lambda: copy_parts(place)) / 1000, 1)
    place.session.give_back(place.home, PART)
    return found


def _put(path: Path) -> None:
    """Write a manifest as a batch does."""
    with putting(path, CONTENT, is_new=True):
        write_text(path, CONTENT, durable=True)


def _fill(place: Place, first: int, last: int) -> None:
    """Write rows as another machine would."""
    told = {"home": place.home, "part": PART, "content": CONTENT, "first": first, "last": last}
    place.session.change(FILL, **told)


def _forget(place: Place, copied: int) -> None:
    """Let the home have copied so many of its rows."""
    write_json(place.root / "copies.json", {PART: copied}, durable=True)


def _ms(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000
