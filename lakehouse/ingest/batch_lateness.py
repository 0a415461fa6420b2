"""Lateness of a batch whose rows have an order across its files, by tasks: each measures a range of arrival times.

A task reads the times of all rows, as those that arrived before its range are what its own rows are late behind. Rows
without an arrival time are late behind earlier ones of their file or partition, and in the first range.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial, reduce
from itertools import pairwise
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.ingest.lateness import NOTHING_LATE, Lateness, measure_arrived, measure_files
from lakehouse.storage.tables.table_reads import pieces_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from lakehouse.engine import Engine, Item

# A task sorts about so many rows, of 16 bytes.
ROWS_A_TASK = 4_000_000
_COLUMNS = pa.schema({"event_us": pa.int64(), "arrival_us": pa.int64(), "source_file": pa.string()})
_TEXTS = pa.schema({"lateness": pa.string()})
_LEAST, _MOST = -(2**63), 2**63 - 1


def batch_lateness(
    engine: Engine,
    parts: Sequence[Path],
    newest_us: int | None,
    rows: int,
    arrivals: tuple[int, int] | None,
    step: str,
) -> Lateness:
    """Return the lateness of the rows in a batch's parts of raw, which are in order.

    ``newest_us``: the newest event time before the batch; ``arrivals``: about the first and the last arrival time.
    Cost: one Spark job, in which each of its tasks reads three columns; memory of a task: ``ROWS_A_TASK``.
    """
    tasks = 1 + rows // ROWS_A_TASK
    low, high = arrivals or (0, 0)
    cuts = sorted({low + (high + 1 - low) * number // tasks for number in range(1, tasks)})
    ranges = list(pairwise([_LEAST, *cuts, _MOST])) if rows else []
    items = pa.table({"low": [low for low, _ in ranges], "high": [high for _, high in ranges]})
    kernel = partial(_measured, parts=[str(path.absolute()) for path in parts], newest_us=newest_us)
    texts = engine.map(items, kernel, _TEXTS, step)["lateness"].to_pylist()
    late = (Lateness.of(json.loads(text)) for text in texts)
    return reduce(add, late, replace(NOTHING_LATE, newest_us=newest_us))


def _measured(item: Item, parts: Sequence[str], newest_us: int | None) -> Iterator[pa.Table]:
    low, files = item["low"], _Files(newest_us)
    reached = _LEAST if newest_us is None else newest_us
    held: list[npt.NDArray[np.int64]] = [np.empty((2, 0), np.int64)]
    for rows in (rows for path in parts for rows in pieces_of(path, _COLUMNS)):
        arrived = rows.filter(rows["arrival_us"].is_valid())
        times, arrivals = (arrived[name].to_numpy() for name in ("event_us", "arrival_us"))
        reached = int(times[arrivals < low].max(initial=reached))
        is_own = (arrivals >= low) & (arrivals < item["high"])
        held.append(np.stack([times[is_own], arrivals[is_own]]))
        if low == _LEAST:
            files.add(rows.filter(rows["arrival_us"].is_null()))
    times, arrivals = np.concatenate(held, axis=1)
    late = files.lateness + measure_arrived(times, arrivals, None if reached == _LEAST else reached)
    yield pa.table({"lateness": [json.dumps(asdict(late))]}, _TEXTS)


class _Files:
    """Lateness of rows that stand in order inside each file."""

    def __init__(self, newest_us: int | None) -> None:
        self._newest_us, self._numbers = newest_us, dict[str, int]()
        self._reached_us = dict[Hashable, int]()
        self.lateness = replace(NOTHING_LATE, newest_us=newest_us)

    def add(self, rows: pa.Table) -> None:
        """Add rows that come after those before."""
        paths = rows["source_file"].combine_chunks().dictionary_encode()
        named = (self._numbers.setdefault(path, len(self._numbers)) for path in paths.dictionary.to_pylist())
        numbers = np.fromiter(named, np.int64)[paths.indices.to_numpy()]
        event = rows["event_us"].to_numpy()
        self.lateness += measure_files(event, numbers, self._newest_us, self._reached_us)
