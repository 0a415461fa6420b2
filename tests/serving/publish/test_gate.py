from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from lakehouse.serving.publish.gate import PublishRefused, reconcile
from lakehouse.serving.publish.snapshot import StreamSnapshot, Total
from tests.serving.conftest import STREAMS, Lakehouse


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> StreamSnapshot:
    folder: Path = tmp_path_factory.mktemp("deep")
    return STREAMS["deep"].write(folder)


def with_total(snapshot: StreamSnapshot, measure: str, total: float | Decimal) -> StreamSnapshot:
    place = (2, 1, measure)
    changed = [
        replace(t, total=total) if (t.level, t.grouping, t.measure) == place else t for t in snapshot.totals
    ]
    return replace(snapshot, totals=changed)


def total_of(snapshot: StreamSnapshot, measure: str) -> Total:
    return next(t for t in snapshot.totals if (t.level, t.grouping, t.measure) == (2, 1, measure))


def test_totals_that_agree_are_counted(lakehouse: Lakehouse, snapshot: StreamSnapshot) -> None:
    assert reconcile(lakehouse.reader.connection, [snapshot]) == len(snapshot.totals)


def test_a_double_may_differ_by_rounding_only(lakehouse: Lakehouse, snapshot: StreamSnapshot) -> None:
    total = float(total_of(snapshot, "temp").total or 0)

    reconcile(lakehouse.reader.connection, [with_total(snapshot, "temp", total * (1 + 2e-16))])
    with pytest.raises(PublishRefused, match="beyond rounding"):
        reconcile(lakehouse.reader.connection, [with_total(snapshot, "temp", total + 1e-2)])


@pytest.mark.parametrize(("measure", "by"), [("price", Decimal("0.01")), ("hits", 1)])
def test_an_exact_sum_must_be_equal_to_the_last_digit(
    lakehouse: Lakehouse, snapshot: StreamSnapshot, measure: str, by: Decimal
) -> None:
    total = Decimal(total_of(snapshot, measure).total or 0) + by

    with pytest.raises(
        PublishRefused, match=f"deep level 2 grouping 1 measure {measure}: the rollup has sum = {total}"
    ):
        reconcile(lakehouse.reader.connection, [with_total(snapshot, measure, total)])


def test_a_sum_that_is_no_number_is_refused(lakehouse: Lakehouse, snapshot: StreamSnapshot) -> None:
    with pytest.raises(PublishRefused, match="sum = nan"):
        reconcile(lakehouse.reader.connection, [with_total(snapshot, "temp", float("nan"))])
