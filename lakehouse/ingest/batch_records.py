"""The records of one ingest batch: a manifest's lines as typed rows, each with its reason for rejection or none.

Rows of files are processed file by file in path order, line by line. Rows of topics: by arrival time, then topic,
partition and offset, whichever partition they came in; those without an arrival time first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.stream import Stream
from lakehouse.engine import Session
from lakehouse.ingest.sources.manifest import Manifest
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.spark import tables
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_extent
from lakehouse.storage.tables.table_log import read_columns

_PROGRESS = ("batch", "newest_us", "confirmed_us", "reached_us")
Key = npt.NDArray[Any]


@dataclass(frozen=True)
class Progress:
    """Progress of a stream: its last finished batch (0 for none), the newest event time accepted, and confirmed.

    ``reached_us``: what the last batch that accepted rows has reached.
    """

    batch: int
    newest_us: int | None
    confirmed_us: int | None = None
    reached_us: int | None = None

    @staticmethod
    def after(entry: Mapping[str, Any]) -> Progress:
        """Return how far a stream is with a ledger row."""
        return Progress(*(entry[name] for name in _PROGRESS))


@dataclass(frozen=True)
class StreamTables:
    """The tables an ingest of one stream writes."""

    spark: Session
    layout: Home
    stream: Stream

    def create(self) -> bool:
        """Create those that are not there yet; the ledger is last, so when it is there all are."""
        name = self.stream.name
        if tables.exists(self.layout.ledger(name)):
            return False
        tables.side_by_side(
            lambda: tables.create_raw(self.layout.raw(name), self.stream),
            lambda: tables.create(self.layout.quarantine(name), "quarantine"),
            lambda: tables.create(self.layout.profile(name), "profile"),
        )
        tables.create(self.layout.ledger(name), "ledger")
        return True

    def progress(self) -> Progress:
        """Return how far the ledger has come."""
        last = read_extent(self.layout, self.stream.name).batch
        rows = read_columns(self.layout.ledger(self.stream.name), _PROGRESS, ("batch", last, last))
        return Progress(*rows[0]) if rows else Progress(0, None)


@dataclass(frozen=True)
class BatchRecords:
    """The records of one manifest, and how far the stream had come before them."""

    tables: StreamTables
    manifest: Manifest
    store: ManifestStore
    before: Progress

    @cached_property
    def stream(self) -> Stream:
        """The stream as it is declared, and when its records were listed; requeued ones were at different times."""
        is_requeue = self.manifest.kind == "requeue"
        return self.tables.stream.listed_at(None if is_requeue else self.manifest.listed_us)


def processing_order(rows: pa.Table, *first: Key) -> npt.NDArray[np.intp]:
    """Return the places of rows in processing order; keys that come ``first`` outrank it, the last of them most."""
    places = rows["source_item"].to_numpy(), rows["source_line"].to_numpy(), _ranks(rows["source_file"])
    keys = (*places, _arrivals(rows["arrival_us"]), *first)
    return np.arange(rows.num_rows) if _is_in_order(keys) else np.lexsort(keys)


def _is_in_order(keys: Sequence[Key]) -> bool:
    """True if rows stand in order of these keys, of which the last counts most: nearly always, as files are read."""
    is_before = np.zeros(max(0, len(keys[0]) - 1), np.bool_)
    is_same = ~is_before
    for key in reversed(keys):
        is_before |= is_same & np.less(key[:-1], key[1:])
        is_same &= np.equal(key[:-1], key[1:])
    return bool(np.all(is_before | is_same))


def _arrivals(times: pa.ChunkedArray) -> Key:
    return np.asarray(pc.fill_null(times, np.iinfo(np.int64).min).to_numpy())


def _ranks(paths: pa.ChunkedArray) -> Key:
    """Return for each text how many distinct ones sort before it; paths are many times fewer than rows."""
    found = paths.combine_chunks()
    if not pa.types.is_dictionary(found.type):
        found = found.dictionary_encode()
    rank = np.argsort(np.argsort(np.array(found.dictionary.to_pylist(), dtype=object)))
    return np.asarray(rank[found.indices.to_numpy()])
