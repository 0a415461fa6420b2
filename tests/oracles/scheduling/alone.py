"""The executor's yardstick: one query, nothing else, each batch through the written order before the next is read.

``run_through`` lets an executor read batches one after the other, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lakehouse.algorithms.scheduling.chunks import Batch, Chunk, Memory, Rows
from lakehouse.algorithms.scheduling.contract import Query
from lakehouse.algorithms.scheduling.executor import Executor, Result
from lakehouse.algorithms.scheduling.operators import require_runnable


def alone(query: Query, source: Iterable[tuple[str, Rows]]) -> list[tuple[int, Any]]:
    """Return the number of each batch that gives results, with their rows; whatever an operator raises is raised."""
    found = []
    for number, (stream, rows) in enumerate(source):
        for operator in query.chain.operators if stream == query.chain.source else ():
            if rows.num_rows:
                chunk = Chunk(0, 0, Batch(rows, Memory()), None, None)
                rows = chunk.kept(require_runnable(operator).mask(chunk)).rows()
        if stream == query.chain.source and rows.num_rows:
            found.append((number, rows))
    return found


def run_through(executor: Executor, source: Iterable[tuple[str, Rows]]) -> Iterator[Result]:
    """Let an executor read batches, each when the one before is finished, and yield results as they come."""
    for stream, rows in source:
        executor.offer(stream, rows)
        while executor.step():
            yield from executor.results()
