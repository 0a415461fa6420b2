"""Table of states in memory: a bucket is run batch by batch, in processes that come, go and lag behind."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.queries.runtime.tasks import bucket as bucket_state
from lakehouse.queries.runtime.tasks.bucket import LOG, STATE, BucketResult, Segment, StateBefore

# Makes what a task does with a bucket, from the state before.
Make = Callable[[StateBefore], Any]


@dataclass
class Steps:
    """The table ``states`` of one bucket, and the processes that have run it; each has its own memory."""

    make: Make
    columns: Sequence[str] = ("part", "content", "leave_us")
    batches: list[pa.Table] = field(default_factory=list)
    processes: dict[int, dict[Any, Any]] = field(default_factory=dict)
    drawn: int = 0
    reads: list[int] = field(default_factory=list)
    logs: list[pa.Table] = field(default_factory=list)

    def run(self, rows: pa.Table, process: int, is_lost: bool = False, **known: Any) -> BucketResult:
        """Take rows in as the next batch; return its result. ``is_lost``: it is not appended, and the process lives."""
        number = len(self.batches) + 1
        self.drawn += 1
        before = StateBefore("states", number, str(self.drawn), self._read)
        bucket_state._KEPT.clear()
        bucket_state._KEPT.update(self.processes.pop(process, {}))
        result: BucketResult = self.make(before, **known)(0, rows, self._counters())
        self.processes[process] = dict(bucket_state._KEPT)
        bucket_state._KEPT.clear()
        if not is_lost:
            self.logs.append(result.rows[LOG])
            self.batches.append(result.rows[STATE].select(list(self.columns)))
        return result

    def end(self, process: int) -> None:
        """End a process, and its memory with it."""
        self.processes.pop(process, None)

    def drop_ended(self) -> None:
        """Delete what nobody reads any more, as the job does that maintains the table."""
        markers = self._markers()
        self.batches = [
            self._alive(batch, markers) if number < len(self.batches) - 1 else batch
            for number, batch in enumerate(self.batches)
        ]

    def copy(self) -> Steps:
        """Return a copy that goes on by itself, in new processes."""
        return Steps(self.make, self.columns, copy.copy(self.batches), {}, self.drawn)

    def _counters(self) -> pa.Table:
        if not self.batches:
            return pa.table({name: pa.array([], kind) for name, kind in _KINDS.items()}).select(
                list(self.columns)
            )
        last = self.batches[-1]
        return last.filter(pc.or_(pc.is_null(last["leave_us"]), pc.is_null(last["content"])))

    def _markers(self) -> dict[str, int]:
        rows = self._counters()
        marked = rows.filter(pc.is_null(rows["content"]))
        return dict(zip(marked["part"].to_pylist(), marked["leave_us"].to_pylist(), strict=True))

    def _alive(self, batch: pa.Table, markers: Mapping[str, int]) -> pa.Table:
        kept = [
            row["leave_us"] is not None
            and row["content"] is not None
            and row["leave_us"] >= markers[row["part"]]
            for row in batch.to_pylist()
        ]
        return batch.filter(pa.array(kept, pa.bool_()))

    def _read(self, bucket: int, after: int, alive_from: Mapping[str, int]) -> list[Segment]:
        self.reads.append(after)
        return [
            Segment(row["part"], row["leave_us"], row["content"])
            for batch in self.batches[after:]
            for row in self._alive(batch, alive_from).to_pylist()
        ]


_KINDS = {"part": pa.string(), "content": pa.binary(), "leave_us": pa.int64()}
