from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehouse.serving.ask.arrivals import Arrivals, arrivals
from lakehouse.serving.ask.question import Question
from lakehouse.serving.publish.publish import publish
from lakehouse.storage.layout import Home
from tests.serving.ask.test_ask import questions
from tests.serving.conftest import STREAMS, Lakehouse
from tests.serving.streams import Row

FEW = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@FEW
@given(questions(), st.integers(1, 12))
def test_rows_of_each_bucket_and_those_that_were_behind_the_newest_before_them(
    lakehouse: Lakehouse, question: Question, points: int
) -> None:
    where, rows = question.where, STREAMS[question.stream].rows
    late = _late(rows)

    found = arrivals(lakehouse.reader, question.stream, question.start_us, question.end_us, points, where)

    for bucket in found:
        assert (bucket.rows, bucket.late) == (_inside(bucket, rows, where), _inside(bucket, late, where))


def _inside(bucket: Arrivals, rows: list[Row], where: Mapping[str, str | None]) -> int:
    return sum(
        bucket.from_us <= row.event_us < bucket.to_us
        and all(_text(getattr(row, key)) == value for key, value in where.items())
        for row in rows
    )


def _late(rows: list[Row]) -> list[Row]:
    """The slow way: row by row, batch by batch."""
    found: list[Row] = []
    newest_us: int | None = None
    for row in sorted(rows, key=lambda row: row.batch):
        if newest_us is not None and row.event_us < newest_us:
            found.append(row)
        newest_us = row.event_us if newest_us is None else max(newest_us, row.event_us)
    return found


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def test_without_a_range_the_buckets_hold_every_row(lakehouse: Lakehouse) -> None:
    found = arrivals(lakehouse.reader, "flat", points=7)

    assert sum(bucket.rows for bucket in found) == len(STREAMS["flat"].rows)


def test_where_raw_rows_are_gone_nobody_can_say_how_many_were_late(tmp_path: Path) -> None:
    facts = STREAMS["pair"].write(tmp_path / "pair")
    publish(Home(tmp_path), [replace(facts, raw_path=str(tmp_path / "gone"))])

    assert {bucket.late for bucket in arrivals(tmp_path, "pair", points=3)} == {None}


LIVE = "make_timestamptz(max(event_us) + 1000)"
LATER = "make_timestamptz(max(event_us) + 3600000000)"


def _expected(folder: Path, **declared: Any) -> list[Arrivals]:
    stream = replace(STREAMS["flat"], **declared)
    publish(Home(folder), [stream.write(folder / "flat")])
    newest_us = stream.newest_us or 0
    return arrivals(folder, "flat", newest_us - 20_000_000, newest_us + 20_000_000, 40)


def test_what_is_expected_falls_with_age_and_is_nothing_for_what_is_final_or_ahead(tmp_path: Path) -> None:
    newest_us, latest_us = STREAMS["flat"].newest_us or 0, 60_000_000

    found = _expected(tmp_path, latest_us=latest_us, committed_at=LIVE)

    shares = [bucket.expected / bucket.rows for bucket in found if bucket.rows]
    assert shares == sorted(shares) and shares[-1] > 0
    assert not any(bucket.expected for bucket in found if bucket.from_us > newest_us)
    # Each batch has three late rows: never more than these come again.
    assert sum(bucket.expected for bucket in found) <= sum(bucket.rows for bucket in found)


def test_nothing_is_expected_of_final_times(tmp_path: Path) -> None:
    newest_us = STREAMS["flat"].newest_us or 0
    found = _expected(tmp_path, latest_us=5_000_000, committed_at=LIVE)
    assert not any(bucket.expected for bucket in found if bucket.to_us <= newest_us - 5_000_000)


def test_nothing_is_expected_after_a_backfill(tmp_path: Path) -> None:
    found = _expected(tmp_path, latest_us=60_000_000, committed_at=LATER)
    assert sum(bucket.rows for bucket in found) and not any(bucket.expected for bucket in found)


def test_nothing_is_expected_of_a_stream_without_rows(lakehouse: Lakehouse) -> None:
    found = arrivals(lakehouse.reader, "empty", 0, 20_000_000, 4)
    assert not any(bucket.expected for bucket in found)
