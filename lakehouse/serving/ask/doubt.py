"""Sentences for people about rows that an answer cannot be sure of: that may repeat others, or may be missing."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import duckdb
import numpy as np

from lakehouse.algorithms.ingest.double_hour import double_hours
from lakehouse.serving.ask.ladder import Doubtful, ladder_of
from lakehouse.serving.ask.question import Answer, Question
from lakehouse.serving.literals import text
from lakehouse.storage.doubtful import counted

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A sentence names so many hours.
_MOST = 3


def is_in_doubt(answer: Answer) -> bool:
    """True if rows behind an answer may repeat others, or rows may be missing in it."""
    return bool(answer.unchecked or answer.ambiguous)


def doubts(
    connection: duckdb.DuckDBPyConnection, question: Question, answers: Sequence[Answer] | None = None
) -> list[str]:
    """Return a sentence for each reason for which answers to a question are neither exact nor final.

    Without ``answers`` for those that any answer in the range may have.
    """
    ladder = ladder_of(connection, question)
    if ladder is None or (answers is not None and not any(map(is_in_doubt, answers))):
        return []
    unchecked, ambiguous = (
        [one for one in ranges if one.touches(question.start_us, question.end_us)]
        for ranges in (ladder.unchecked, ladder.ambiguous)
    )
    sentences = []
    if unchecked:
        sentences.append(
            f"{_rows(unchecked)} of {question.stream} came when identities of their time were no longer known and may "
            "repeat others: the interval holds the value without them and the one with them; see duplicates_within"
        )
    if ambiguous:
        ((zone,),) = connection.execute(
            f"SELECT timezone FROM streams WHERE stream = {text(question.stream)}"
        ).fetchall()
        sentences.append(
            f"{_rows(ambiguous)} of {_hours(ambiguous, zone)}, which comes twice, in quarantine: nothing says "
            "which of two moments they mean, so the interval holds the value without them and the one with them. "
            f"Land them with an offset, then `tidemark accept-loss {question.stream} --reason ambiguous_time`"
        )
    return sentences


def _rows(ranges: Sequence[Doubtful]) -> str:
    return counted(sum(one.n for one in ranges))


def _hours(ranges: Sequence[Doubtful], zone: str) -> str:
    """Return the local hours of ranges, such as 2025-10-26 02:00-03:00 Europe/Berlin."""
    hours = double_hours(zone, np.array([one.from_us for one in ranges], np.int64)) if zone != "UTC" else []
    spans = [f"{_clock(hour.begin_us)}-{_clock(hour.end_us)[11:]}" for hour in hours]
    shown = ", ".join(spans[:_MOST]) or "an hour"
    return f"{shown}{f' and {len(spans) - _MOST} more' if len(spans) > _MOST else ''} {zone}"


def _clock(wall_us: int) -> str:
    return f"{_EPOCH + timedelta(microseconds=wall_us):%Y-%m-%d %H:%M}"
