"""The last check before a version is shown: its totals are compared with those added up from the rollup's nodes."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

import duckdb

from lakehouse.config.problems import Permanent
from lakehouse.serving.literals import text
from lakehouse.serving.publish.changes import combined_of, totals_of_changes
from lakehouse.serving.publish.snapshot import ROWS, StreamSnapshot, Total
from lakehouse.serving.segments.previous import published_streams
from lakehouse.serving.segments.segments import BLOCK

_EPSILON = sys.float_info.epsilon
_TOTALS = """
    SELECT ladder.measure, ladder.level, series."grouping", sum(nodes.n),
        coalesce(sum(nodes.exact_total), 0) + coalesce(sum(nodes.wide_total), 0),
        fsum(nodes.total), sum(nodes.magnitude), count(*)
    FROM ladder
    JOIN streams ON streams.stream = ladder.stream
    JOIN series ON series.stream_id = streams.stream_id
    JOIN nodes ON nodes.slot = ladder.first_slot + series.series_rank
    WHERE ladder.stream = {stream}
    GROUP BY ALL
"""


class PublishRefused(Permanent, RuntimeError):
    """A version that must not be shown; the pointer stays where it was."""


class TotalsDiffer(PublishRefused):
    """Streams whose totals in a new file differ from those of their rollups; ``problems`` has one for each."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        super().__init__(
            "\n".join(
                f"totals differ, {problem}; the last published state of {stream} stays, "
                f"`tidemark rebuild {stream}` builds its rollup again"
                for stream, problem in self.problems.items()
            )
        )


@dataclass(frozen=True)
class _Published:
    n: int
    exact: int
    total: float
    magnitude: float
    nodes: int


_NOTHING = _Published(0, 0, 0.0, 0.0, 0)
_Place = tuple[str, int, int]


_CHANGES = f"""
    SELECT ladder.measure, ladder.level, series."grouping", sum(now.n) - sum(combined.n_before),
        coalesce(sum(now.exact_total), 0) + coalesce(sum(now.wide_total), 0) - coalesce(sum(exact_before), 0),
        fsum(now.total) - coalesce(fsum(total_before), 0), sum(now.magnitude), 4 * count(*)
    FROM {{combined}} AS combined
    JOIN {{newest}}.nodes AS now USING (slot, start_us)
    JOIN ladder ON ladder.first_slot // {BLOCK} = slot // {BLOCK}
    JOIN streams ON streams.stream = ladder.stream
    JOIN series ON series.stream_id = streams.stream_id AND series.series_rank = slot - ladder.first_slot
    WHERE now.n > 0
    GROUP BY ALL
"""


def reconcile(
    connection: duckdb.DuckDBPyConnection, streams: Sequence[StreamSnapshot], newest: str = "segment"
) -> int:
    """Compare every total of every stream; return how many were compared.

    Counts and exact sums must be equal. Sums of doubles may differ by eps * nodes * sum of n * max(|m|, |M|), which
    bounds the error of adding the nodes' sums in any order on both sides. For a stream that shares nodes with the
    version before, the increase of its changed nodes is compared with the totals of the partial nodes, and those that
    were built again with their own; ``newest`` is the schema of these nodes. Raises TotalsDiffer naming of each such
    stream one level, grouping and measure, with both figures.
    """
    compared, problems = 0, dict[str, str]()
    for stream in streams:
        if stream.changed is None:
            totals, query, source = stream.totals, _TOTALS.format(stream=text(stream.name)), "the rollup has"
        else:
            totals, source = totals_of_changes(connection, stream), "the rollup gained"
            number = published_streams(connection)[stream.name].number
            query = _CHANGES.format(combined=combined_of(number), newest=newest)
        for problem in islice(_differences(stream, totals, _published(connection, query), source), 1):
            problems[stream.name] = problem
        compared += len(totals)
    if problems:
        raise TotalsDiffer(problems)
    return compared


def _published(connection: duckdb.DuckDBPyConnection, query: str) -> dict[_Place, _Published]:
    rows = connection.execute(query).fetchall()
    return {
        (measure, level, grouping): _Published(int(n), int(exact or 0), total or 0.0, magnitude or 0.0, nodes)
        for measure, level, grouping, n, exact, total, magnitude, nodes in rows
    }


def _differences(
    stream: StreamSnapshot, totals: Sequence[Total], published: dict[_Place, _Published], source: str
) -> Iterator[str]:
    exact = {measure.name: measure.decimals for measure in stream.measures}
    seen: set[_Place] = set()
    for total in totals:
        keys = [(total.measure, total.level, total.grouping), (ROWS, total.level, total.grouping)]
        seen.update(keys)
        found, rows = (published.get(key, _NOTHING) for key in keys)
        where = f"{stream.name} level {total.level} grouping {total.grouping} measure {total.measure}"
        if total.rows != rows.n:
            yield f"{where}: {source} {total.rows} rows, the new file {rows.n}"
        elif total.n != found.n:
            yield f"{where}: {source} n = {total.n}, the new file {found.n}"
        elif total.measure != ROWS:
            yield from _sum_difference(f"{where}: {source}", total, found, exact[total.measure])
    for measure, level, grouping in published.keys() - seen if totals else ():
        yield f"{stream.name} level {level} grouping {grouping} measure {measure}: {source} no total for it"


def _sum_difference(where: str, total: Total, found: _Published, decimals: int | None) -> Iterator[str]:
    if decimals is not None:
        expected = Fraction(total.total or 0) * 10**decimals
        if expected != found.exact:
            yield f"{where} sum = {total.total}, the new file {Fraction(found.exact, 10**decimals)}"
        return
    bound = _EPSILON * (found.nodes + 1) * found.magnitude
    difference = abs(float(total.total or 0.0) - found.total)
    if not difference <= bound:
        yield f"{where} sum = {total.total!r}, the new file {found.total!r}, beyond rounding ({bound:.3g})"
