"""What a publisher must know about each registered query, read from the logs of its tables without an engine.

Only what is finished counts: pairs of a batch or a repair that goes on, or died, are in the table already, but its
figures are not, so it is not yet told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.catalog.columns import Column
from lakehouse.catalog.layout import Home
from lakehouse.catalog.plans import is_of
from lakehouse.catalog.queries import JoinQuery
from lakehouse.catalog.stream import Stream, instant_us
from lakehouse.catalog.table_log import commits_of, read_columns, read_log

_TYPES = {"string": "VARCHAR", "int": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN"}
_COUNTS = ("rows", "pairs", "missed", "refused", "unusable")
_SIDES = ("left", "right")


@dataclass(frozen=True)
class PairColumn:
    """A column of the query's own: its type in DuckDB, and what it holds."""

    name: str
    type: str
    says: str


@dataclass(frozen=True)
class QueryFacts:
    """One registered query as it is to be published.

    ``pair_files`` and ``late_files`` are the data files of its pairs and its log; of them count batches up to
    ``batches`` and repairs up to ``repairs``, and pairs from ``pairs_from_us`` on (None: all).
    ``final_before_us``: nothing that came as late as its streams allow can still change the time before it.
    """

    name: str
    description: str
    definition: str
    window_us: int
    recall: float
    period_us: int
    step_us: int
    columns: Sequence[PairColumn]
    batches: int
    rows: int
    pairs: int
    missed: int
    refused: int
    unusable: int
    time_us: int | None
    newest_us: int | None
    final_before_us: int | None
    pairs_from_us: int | None
    repairs: int = 0
    repaired_through: int = 0
    repaired_us: int | None = None
    repaired: int = 0
    gone: int = 0
    pair_files: Sequence[Path] = ()
    late_files: Sequence[Path] = ()

    def identity(self) -> str:
        """Return what decides the published content: two equal texts publish the same answers."""
        # In which files pairs lie decides nothing: a table may be compacted.
        return repr(replace(self, pair_files=(), late_files=()))


def queries_to_publish(
    layout: Home, registered: Mapping[str, JoinQuery], streams: Mapping[str, Stream], published_us: int | None
) -> tuple[list[QueryFacts], list[str]]:
    """Return the facts of every query that has tables, and the names of those whose tables are of another meaning."""
    made = [query for query in registered.values() if commits_of(layout.queries(query.name))]
    changed = [query.name for query in made if not is_of(layout.plans(query.name), query.definition())]
    told = [query_facts(layout, query, streams, published_us) for query in made if query.name not in changed]
    return told, changed


def query_facts(
    layout: Home, query: JoinQuery, streams: Mapping[str, Stream], published_us: int | None
) -> QueryFacts:
    """Return what a publisher is told of a query; ``published_us`` back from its newest time, None for all."""
    # In this order: what a repair has looked at is then among the batches, and the pairs of both in the files.
    repairs = _repairs(layout, query.name)
    newest, moment, figures = _figures(layout, query.name)
    latest = max(streams[side.stream].latest for side in query.sides)
    is_whole = newest is None or published_us is None
    return QueryFacts(
        name=query.name,
        description=query.description,
        definition=query.definition(),
        window_us=query.window_us,
        recall=query.recall,
        period_us=query.period_us,
        step_us=query.step_us,
        columns=[_column(query, streams, place) for place in range(len(query.outputs))],
        **figures,
        time_us=moment,
        newest_us=newest,
        final_before_us=None if moment is None else moment - latest,
        # A step that is cut would show fewer pairs than it has.
        pairs_from_us=None if is_whole else floor_to(query.step_us, (newest or 0) - (published_us or 0)),
        **repairs,
        pair_files=_files(layout.joins(query.name)),
        late_files=_files(layout.late(query.name)),
    )


def _figures(layout: Home, query: str) -> tuple[int | None, int | None, dict[str, int]]:
    """Return newest event time, stream time and totals of the finished batches."""
    names = ("batch", *_COUNTS, "time_us", "left_newest_us", "right_newest_us")
    rows = [dict(zip(names, row, strict=True)) for row in read_columns(layout.queries(query), names)]
    newest = [row[f"{side}_newest_us"] for row in rows for side in _SIDES]
    totals = {name: sum(row[name] for row in rows) for name in _COUNTS}
    batches = max((row["batch"] for row in rows), default=0)
    return _greatest(newest), _greatest([row["time_us"] for row in rows]), {"batches": batches, **totals}


def _greatest(times: Sequence[int | None]) -> int | None:
    return max((time for time in times if time is not None), default=None)


def _repairs(layout: Home, query: str) -> dict[str, Any]:
    names = ("repair", "through", "found", "gone", "committed_at")
    rows = sorted(read_columns(layout.repairs(query), names), key=lambda row: row[0])
    if not rows:
        return {}
    repair, through, _, _, at = rows[-1]
    return {
        "repairs": repair,
        "repaired_through": through,
        "repaired_us": instant_us(at),
        "repaired": sum(row[2] for row in rows),
        "gone": sum(row[3] for row in rows),
    }


def _files(table: Path) -> tuple[Path, ...]:
    log = read_log(table)
    return tuple(log.files) if log else ()


def _column(query: JoinQuery, streams: Mapping[str, Stream], place: int) -> PairColumn:
    output = query.outputs[place]
    stream = query.sides[output.side].stream
    column = streams[stream].all_columns.get(output.column, Column(type="int"))
    is_exact = column.type in ("decimal", "double") and column.decimals is not None
    stored = f"DECIMAL(38, {column.decimals})" if is_exact else _TYPES[column.type]
    return PairColumn(output.name, stored, f"{output.column} of the {_SIDES[output.side]} row, of {stream}.")
