"""Rows per bucket of a range: how many exist, how many of them came late, and an estimate of those still to come.

Late means what the ledger calls late: behind the newest event time that earlier batches had reached, or an earlier
row of the same file; with arrival times, behind a row of the file, or of all topics, that arrived before. Nodes do not
record it, so it is counted from the raw rows of the range while they are kept. The number of rows still to come is an
estimate, not a bound: it assumes that rows of a bucket will be as late as rows of this stream have been so far, by the
ledger's histogram of lateness. Nothing comes for what is final, and a backfill says nothing of how late rows are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lakehouse.serving.ask.limits import TIMEOUT_S, limited
from lakehouse.serving.ask.question import Question, Timestamp
from lakehouse.serving.ask.raw import raw_rows, scanned
from lakehouse.serving.ask.series import Bucket, series
from lakehouse.serving.literals import name, text
from lakehouse.serving.sandbox.sandbox import PublishedReader, reading
from lakehouse.storage.corrections import raw_from, read_corrections
from lakehouse.storage.layout import Home

# If nearly all rows of a bucket are expected to come later, the estimate is at most twenty times its rows.
_LEAST_ARRIVED = 0.05


@dataclass(frozen=True)
class Arrivals:
    """Rows of ``[from_us, to_us)``; if raw rows are deleted, ``late`` is None and ``rows`` is that of the nodes.

    ``expected`` is an estimate of the rows that are still to come.
    """

    from_us: int
    to_us: int
    rows: int
    late: int | None
    expected: float


def arrivals(
    home: Path | Home | PublishedReader,
    stream: str,
    start: Timestamp | None = None,
    end: Timestamp | None = None,
    points: int = 100,
    where: Mapping[str, object] | None = None,
    timeout_s: float | None = TIMEOUT_S,
) -> list[Arrivals]:
    """Return at most ``points`` equal parts of ``[start, end)``, by default of all rows.

    Cost: that of ``series``, and a sort of the raw rows from the start of the range on, of batches that reach into
    it. Raises NotPublished or AskError as ``series``.
    """
    with reading(home) as reader, limited(reader, timeout_s):
        found = series(reader, stream, "*", "count", start, end, points, where, timeout_s=None)
        held = found.buckets
        counted = _counted(reader, found.question, held)
        expected = _missing(reader, stream, held) * np.array([rows for rows, _ in counted])
        return [
            Arrivals(bucket.from_us, bucket.to_us, *counted[place], float(expected[place]))
            for place, bucket in enumerate(held)
        ]


def _counted(
    reader: PublishedReader, question: Question, held: Sequence[Bucket]
) -> list[tuple[int, int | None]]:
    """Return rows and late rows of each bucket, from raw as far as it is kept."""
    row = reader.connection.execute(
        f"SELECT raw_path FROM streams WHERE stream = {text(question.stream)}"
    ).fetchone()
    path = reader.home.tables / (row[0] if row else "")
    unknown: list[tuple[int, int | None]] = [(round(bucket.value or 0), None) for bucket in held]
    table = scanned(path, question.start_us) if row else None
    if table is None:
        return unknown
    kept_us = raw_from(read_corrections(reader.home, question.stream))
    with raw_rows(reader) as raw:
        found = {
            place: (rows, late)
            for place, rows, late in raw.execute(_statement(reader, question, held, table)).fetchall()
        }
    return [
        unknown[place] if kept_us is not None and bucket.from_us < kept_us else found.get(place, (0, 0))
        for place, bucket in enumerate(held)
    ]


def _statement(reader: PublishedReader, question: Question, held: Sequence[Bucket], table: str) -> str:
    """Count rows and late rows per bucket, as the ledger does; rows older than the range make no row late."""
    batches = reader.connection.execute(
        "SELECT batch, before_us FROM (SELECT *, lag(newest_us) OVER (ORDER BY batch) AS before_us "
        f"FROM ledger WHERE stream = {text(question.stream)}) WHERE max_event_us >= {question.start_us} "
        f"AND min_event_us < {question.end_us}"
    ).fetchall()
    before = ", ".join(f"({batch}, {'NULL' if us is None else us})" for batch, us in batches)
    edges = ", ".join(f"({place}, {bucket.from_us})" for place, bucket in enumerate(held))
    where = "".join(
        f" AND CAST({name(key)} AS VARCHAR) IS NOT DISTINCT FROM {text(value)}"
        for key, value in question.where.items()
    )
    return f"""
        WITH batches(batch, before_us) AS (VALUES {before or "(NULL::BIGINT, NULL::BIGINT)"}),
        edges(place, edge_us) AS (VALUES {edges}),
        read AS (
            SELECT *, CASE WHEN arrival_us IS NULL THEN max(event_us) OVER (
                PARTITION BY batch, source_file, arrival_us IS NULL ORDER BY source_line, source_item
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) ELSE max(event_us) OVER (
                PARTITION BY batch, arrival_us IS NULL,
                CASE WHEN source_file NOT LIKE 'kafka:%' THEN source_file END ORDER BY arrival_us
                RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) END AS newest_us
            FROM {table} JOIN batches USING (batch) WHERE event_us >= {question.start_us}
        )
        SELECT place, count(*), count(*) FILTER (event_us < greatest(newest_us, before_us))
        FROM read ASOF JOIN edges ON event_us >= edge_us
        WHERE event_us < {question.end_us} {where}
        GROUP BY place
    """


def _missing(reader: PublishedReader, stream: str, held: Sequence[Bucket]) -> npt.NDArray[np.float64]:
    """Return for each bucket how many rows are still to come per existing row, if lateness stays as it has been.

    Nothing comes for what is final. Lateness is that of batches whose rows came within ``latest``: others are a
    backfill, of which the lateness says when files were landed. Nor do rows count that were later than ``latest``.
    """
    found = reader.connection.execute(
        "SELECT lateness, accepted, confirmed_us, latest_us FROM streams JOIN ("
        "SELECT * EXCLUDE newest_us FROM ledger) USING (stream) "
        f"WHERE stream = {text(stream)} AND epoch_us(committed_at) - max_event_us <= latest_us"
    ).fetchall()
    if not found:
        return np.zeros(len(held))
    newest_us, latest_us = found[0][2:]
    longest = max(len(bins or []) for bins, *_ in found)
    late = np.zeros(longest)
    for bins, *_ in found:
        late[: len(bins or [])] += bins or []
    late[2.0 ** np.arange(longest) * 1000 > latest_us] = 0
    since = np.array([max(0, newest_us - bucket.to_us) for bucket in held], np.float64)
    # A bin holds up to twice its power of two of milliseconds: it counts completely if any part of it may.
    is_later = 2.0 ** np.arange(1, longest + 1) * 1000 > since[:, None]
    missing = is_later @ late / max(1, sum(accepted for _, accepted, *_ in found))
    is_open = np.array(
        [not bucket.final and bucket.to_us <= newest_us + bucket.to_us - bucket.from_us for bucket in held]
    )
    more: npt.NDArray[np.float64] = is_open * missing / np.maximum(_LEAST_ARRIVED, 1 - missing)
    return more
