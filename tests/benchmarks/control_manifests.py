"""Cost of manifests as rows behind many others, in the file of a home and in a Postgres (decision 0029).

    python -m tests.benchmarks.control control_manifests [--json]

Medians in milliseconds by how many manifests of one file the stream has, on the loopback: ``put`` one and its file,
``read`` one, ``list`` the last hundred, ``open`` the store of a stream, ``look`` for a thousand names of which half
were read. ``bytes``: on disk for each manifest, in the file of a home.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse.ingest.sources.manifest import LandedFile, Manifest
from lakehouse.ingest.sources.manifest_rows import Known, ManifestRows, _row
from lakehouse.storage.control.manifests import _ADD, Manifests
from lakehouse.storage.control.store import FILE
from lakehouse.storage.layout import Home, Part
from tests.storage.control.postgres import running

SIZES, QUICK_SIZES = (10_000, 100_000, 1_000_000), (100,)
TURNS, PIECE = 30, 10_000
COLUMNS = ("ts", "device", "temp", "humidity")


def figures(quick: bool) -> dict[str, object]:
    """Return medians by number of manifests, of a file, and of a Postgres where there is one."""
    found: dict[str, object] = {}
    sizes = QUICK_SIZES if quick else SIZES
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        for size in sizes:
            root = Path(folder) / str(size)
            found |= _behind(Home(root), size, "sqlite")
            found[f"bytes_{size}"] = round((root / FILE).stat().st_size / (size + TURNS))
        try:
            with running() as database:
                for size in sizes:
                    root = Path(folder) / f"shared-{size}"
                    root.mkdir()
                    found |= _behind(Home(root, control=database.url), size, "postgres")
        except pytest.skip.Exception as reason:
            found["postgres"] = f"skipped: {reason}"
    return found


def manifest_of(batch: int) -> Manifest:
    """Return a manifest of one new file."""
    file = LandedFile(
        f"{batch:09d}.csv", 12_345, 0, COLUMNS, None, dict.fromkeys(COLUMNS, "text"), f"{batch:032x}"
    )
    return Manifest(batch, "files", (file,))


def fill(part: Part, size: int) -> Known:
    """Write so many manifests as batches do, many in a transaction; return what is known after them."""
    rows, manifests = ManifestRows(part), Manifests(part)
    known = Known().after(manifest_of(1))
    add_file = (
        "INSERT INTO tidemark_files VALUES (:home, :part, :path, :batch, :size, :mtime_ns, :digest, :is_read)"
    )
    for first in range(1, size + 1, PIECE):
        some = [manifest_of(batch) for batch in range(first, min(first + PIECE, size + 1))]
        files = [row for each in some for row in rows._files_of(each)]
        added = [manifests._values(_row(each, known)) for each in some]
        manifests.store.transact([(_ADD, added), (add_file, files)])
    return known


def _behind(home: Home, size: int, store: str) -> dict[str, object]:
    part = home.manifests("t")
    known, rows = fill(part, size), ManifestRows(part)
    names = [f"{batch:09d}.csv" for batch in range(size - 499, size + 501)]
    work: dict[str, Callable[[int], object]] = {
        "put": lambda turn: rows.add(manifest_of(size + turn + 1), known),
        "read": lambda turn: rows.behind(size // 2 + turn, size // 2 + turn + 1),
        "list": lambda turn: rows.behind(size - 100, size),
        "open": lambda turn: rows.last(),
        "look": lambda turn: rows.seen(names),
    }
    return {
        f"{store}_{name}_{size}_ms": round(statistics.median(_ms(one, turn) for turn in range(TURNS)), 2)
        for name, one in work.items()
    }


def _ms(work: Callable[[int], object], turn: int) -> float:
    started = time.perf_counter()
    work(turn)
    return (time.perf_counter() - started) * 1000
