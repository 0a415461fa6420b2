"""Operators that can be run: predicates over rows.

What runs is any callable over ``Rows``: Arrow's RecordBatch, ``Columns``, or whatever else has the same verbs.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lakehouse.algorithms.scheduling.chunks import Chunk, Rows
from lakehouse.algorithms.scheduling.contract import Bools, Join, Operator


@dataclass(frozen=True, kw_only=True)
class Predicate(Operator):
    """A filter: ``run`` returns one truth value a row, of that row alone; null counts as false.

    ``columns``: those it reads, all if None. ``shared``: predicates of any queries with the same key are the same
    function of the same columns, which then runs once a row for all of them. ``commutes`` unless it is told not to.
    """

    run: Callable[[Any], Any]
    columns: tuple[str, ...] | None = None
    shared: Hashable = None
    commutes: bool = True

    def mask(self, chunk: Chunk) -> Bools:
        """Return which of the chunk's rows pass. Raises ValueError when it did not return one value a row."""
        if self.shared is None:
            return self._asked(chunk.rows(self.columns))
        verdicts = chunk.batch.verdicts_of(self.shared)
        picked = np.arange(chunk.num_rows) if chunk.picked is None else chunk.picked
        asked = picked[~verdicts.is_known[picked]]
        if len(asked):
            fresh = Chunk(chunk.number, chunk.since_us, chunk.batch, asked, None)
            verdicts.is_true[asked] = self._asked(fresh.rows(self.columns))
            verdicts.is_known[asked] = True
        return verdicts.is_true[picked]

    def _asked(self, rows: Rows) -> Bools:
        mask = np.asarray(self.run(rows))
        if mask.shape != (rows.num_rows,):
            raise ValueError(
                f"expected one truth value for each of {rows.num_rows} rows, found shape {mask.shape}"
            )
        # An Arrow array with nulls comes as objects; None is false.
        return mask.astype(np.bool_)


def require_runnable(operator: Operator | Join) -> Predicate:
    """Return an operator that can be run. Raises TypeError when it is no predicate."""
    if not isinstance(operator, Predicate):
        raise TypeError(f"operator {operator.name}: expected a Predicate, found {type(operator).__name__}")
    return operator
