from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from lakehouse.serving.file.facts import StreamFacts, Total
from lakehouse.serving.file.gate import PublishRefused, check_totals
from tests.serving.conftest import STREAMS, Lakehouse


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> StreamFacts:
    folder: Path = tmp_path_factory.mktemp("deep")
    return STREAMS["deep"].write(folder)


def with_total(facts: StreamFacts, measure: str, total: float | Decimal) -> StreamFacts:
    place = (2, 1, measure)
    changed = [
        replace(t, total=total) if (t.level, t.grouping, t.measure) == place else t for t in facts.totals
    ]
    return replace(facts, totals=changed)


def total_of(facts: StreamFacts, measure: str) -> Total:
    return next(t for t in facts.totals if (t.level, t.grouping, t.measure) == (2, 1, measure))


def test_totals_that_agree_are_counted(lakehouse: Lakehouse, facts: StreamFacts) -> None:
    assert check_totals(lakehouse.reader.connection, [facts]) == len(facts.totals)


def test_a_double_may_differ_by_rounding_only(lakehouse: Lakehouse, facts: StreamFacts) -> None:
    total = float(total_of(facts, "temp").total or 0)

    check_totals(lakehouse.reader.connection, [with_total(facts, "temp", total * (1 + 2e-16))])
    with pytest.raises(PublishRefused, match="beyond rounding"):
        check_totals(lakehouse.reader.connection, [with_total(facts, "temp", total + 1e-2)])


@pytest.mark.parametrize(("measure", "by"), [("price", Decimal("0.01")), ("hits", 1)])
def test_an_exact_sum_must_be_equal_to_the_last_digit(
    lakehouse: Lakehouse, facts: StreamFacts, measure: str, by: Decimal
) -> None:
    total = Decimal(total_of(facts, measure).total or 0) + by

    with pytest.raises(
        PublishRefused, match=f"deep level 2 grouping 1 measure {measure}: Spark has sum = {total}"
    ):
        check_totals(lakehouse.reader.connection, [with_total(facts, measure, total)])


def test_a_sum_that_is_no_number_is_refused(lakehouse: Lakehouse, facts: StreamFacts) -> None:
    with pytest.raises(PublishRefused, match="sum = nan"):
        check_totals(lakehouse.reader.connection, [with_total(facts, "temp", float("nan"))])
