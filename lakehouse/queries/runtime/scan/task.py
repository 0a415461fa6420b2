"""A task of a scan: an executor over the rows of one partition; rows let through come out, then what was counted.

    _reader, event_us, _row, columns    a row that the reader of this number lets through; what it does not want is null
    _told                               once: JSON, what the task counted, and what readers raised

The queues of a task hold at most ``LIMIT_BYTES`` and one piece; while they are full no more rows are read.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.scheduling.contract import Query, Statistics
from lakehouse.algorithms.scheduling.executor import MEBIBYTE, Executor, QueryState, Result
from lakehouse.algorithms.scheduling.interval import Interval
from lakehouse.algorithms.scheduling.operators import Predicate
from lakehouse.algorithms.scheduling.policies import DEFAULT, POLICIES
from lakehouse.queries.runtime.scan.calls import TIMEOUT_S, Call, Source, place_of
from lakehouse.queries.runtime.scan.readers import Reader, runnable
from lakehouse.spark.noted_rows import PLACE

LIMIT_BYTES = 64 * MEBIBYTE
# Few enough that a turn of an expensive predicate is short, many enough that a call costs little.
PIECE_ROWS = 8192
READER, TOLD, ROW = "_reader", "_told", "_row"


@dataclass(frozen=True)
class Work:
    """Work of every task of a scan; ``known``: measurements of earlier batches; ``answer``: what comes out.

    ``is_strict``: what a reader raises ends the task; else it is told, and the others go on. ``timeout_s``: how long a
    predicate may take for a piece. ``policy``: by what is chosen which operator runs next.
    """

    readers: tuple[Reader, ...]
    sources: Mapping[str, Source]
    known: Statistics | None
    interval: Interval
    answer: pa.Schema
    limit_bytes: int = LIMIT_BYTES
    is_strict: bool = False
    timeout_s: float = TIMEOUT_S
    policy: str = DEFAULT

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what is let through of a partition's rows, for each reader in order, then what was counted."""
        clock, newest_us = time.perf_counter_ns, None
        chains, source = runnable(self.readers, self.sources, self.timeout_s), iter(batches)
        first = next(source, None)
        if first is not None:
            _load(chains, first)
        executor = Executor(
            chains,
            POLICIES[self.policy](),
            clock,
            self.limit_bytes,
            self.interval,
            self.known,
        )
        executor.step()
        stream, begun_us = self.readers[0].stream, clock() // 1000
        for batch in chain([] if first is None else [first], source):
            latest_us = pc.max(batch.column("event_us")).as_py()
            newest_us = max((each for each in (newest_us, latest_us) if each is not None), default=None)
            for start in range(0, batch.num_rows, PIECE_ROWS):
                piece = batch.slice(start, PIECE_ROWS)
                while not executor.offer(stream, piece, begun_us):
                    executor.step()
                    yield from map(self._rows, executor.results())
        while executor.step():
            yield from map(self._rows, executor.results())
        if self.is_strict:
            self._require_all(executor)
        told = {**self._counted(executor), "elapsed_us": clock() // 1000 - begun_us, "newest_us": newest_us}
        yield self._answer({TOLD: pa.array([json.dumps(told)])}, 1)

    def _rows(self, result: Result) -> pa.RecordBatch:
        number = next(n for n, reader in enumerate(self.readers) if reader.name == result.query)
        count = result.rows.num_rows
        shown = {"event_us", ROW, *PLACE, *self.readers[number].columns}.intersection(self.answer.names)
        columns = {name: result.rows.column(name) for name in shown}
        return self._answer({READER: pa.repeat(pa.scalar(number, pa.int32()), count), **columns}, count)

    def _answer(self, columns: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
        arrays = [
            columns[field.name].cast(field.type) if field.name in columns else pa.nulls(rows, field.type)
            for field in self.answer
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.answer)

    def _counted(self, executor: Executor) -> dict[str, Any]:
        counted, planning = executor.counted, executor.planning
        return {
            **{name: getattr(counted, name).tolist() for name in ("taken", "passed", "busy_us")},
            **{name: getattr(counted, name).tolist() for name in ("arrived", "switched")},
            "waited": executor.peak_waiting.tolist(),
            "queue_bytes": executor.memory.peak,
            "tau_us": planning.interval.length_us,
            "changes": planning.changes,
            "readers": [self._state(executor.states[reader.name]) for reader in self.readers],
        }

    def _require_all(self, executor: Executor) -> None:
        for state in executor.states.values():
            if state.error is not None:
                told = self._state(state)
                place = f" ({told['place']})" if told["place"] else ""
                raise RuntimeError(f"at {told['failed_at']}{place}: {told['error']}") from state.error

    def _state(self, state: QueryState) -> dict[str, Any]:
        told = {
            name: getattr(state, name) for name in ("results", "rows", "misses", "delay_us", "worst_delay_us")
        }
        if state.error is None:
            return told
        error = f"{type(state.error).__name__}: {state.error}"
        place = place_of(state.error, [source.path for source in self.sources.values()])
        return told | {"failed_at": state.failed_at, "error": error, "place": place}


def _load(chains: Sequence[Query], rows: pa.RecordBatch) -> None:
    """Load what is loaded when it is first used: it is no condition's cost, and should delay no row.

    Conditions are asked of no rows at all; of predicates the files are run. The compiled choice is loaded by a step.
    """
    none = rows.slice(0, 0).take(np.zeros(0, np.int64))
    for operator in (operator for query in chains for operator in query.chain.operators):
        run = operator.run if isinstance(operator, Predicate) else None
        if isinstance(run, Call):
            run.load()
        elif run is not None:
            run(none)
