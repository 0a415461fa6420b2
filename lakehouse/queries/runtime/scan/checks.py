"""What a registered join or aggregate that calls predicates has noted of its scans -> deviations per batch.

A scan looks at every raw row of its batch, whatever its conditions say: that can be counted again, what a predicate
said cannot. Cost: one count of the raw rows that no earlier check passed, for each side on which one is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lakehouse.home.table_log import read_columns
from lakehouse.queries.kind import scanned
from lakehouse.queries.runtime.checks import QueryTables, Row, Taken, manifests_since, rows_in_raw
from lakehouse.spark.deviations import Frame

# Of a row of operators: the side, None of the kernel, and the operator, -1 of the scan as a whole.
_Operator = tuple[int | None, int]


def measure_scans(tables: QueryTables, since: int) -> list[Frame]:
    """Return the frame of the batches after ``since``, none of a query without scans of its sides."""
    sides = scanned(tables.query.sides)
    plans = manifests_since(tables, since)
    if not sides or not plans:
        return []
    to_see = {side: rows_in_raw(tables, side, plans) for side in sides}
    return [Frame("scans", ("batch",), list(_rows(tables, [plan.number for plan in plans], to_see)))]


def _rows(tables: QueryTables, batches: Sequence[int], to_see: Mapping[int, Taken]) -> Iterator[Row]:
    names = ("batch", "side", "operator", "rows")
    noted = read_columns(tables.layout.operators(tables.query.name), names)
    wanted = Counter(_wanted(tables, to_see))
    for batch in batches:
        own = [row[1:] for row in noted if row[0] == batch]
        found = Counter((side, operator) for side, operator, _ in own)
        seen = {each: sum(rows for side, place, rows in own if side == each and place < 0) for each in to_see}
        bounds = {side: taken[batch] for side, taken in to_see.items()}
        yield {
            "batch": batch,
            "rows_missing": sum(max(least - seen[side], 0) for side, (least, _) in bounds.items()),
            "rows_added": sum(max(seen[side] - most, 0) for side, (_, most) in bounds.items()),
            "operators_gap": (wanted - found).total() + (found - wanted).total(),
        }


def _wanted(tables: QueryTables, sides: Iterable[int]) -> Iterator[_Operator]:
    """Yield the rows that each batch has."""
    for side in sides:
        yield from ((side, operator) for operator in range(-1, len(tables.query.sides[side].conjuncts)))
    yield None, 0
