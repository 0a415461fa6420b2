"""Deviations of a table from what must hold of it, as small frames that a rule can judge, and how they are counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Frame:
    """The metrics of one table: rows of equal fields; those in ``place`` only say which row it is."""

    table: str
    place: tuple[str, ...]
    rows: Sequence[dict[str, Any]]


def collect(rows: DataFrame) -> list[dict[str, Any]]:
    """Bring a small frame to the driver, in the order of its first column."""
    return sorted((row.asDict() for row in rows.collect()), key=lambda row: tuple(row.values())[:1])


def is_not_a_number(name: str) -> Column:
    """Whether a double is NaN or infinite; null is neither."""
    column = F.col(name)
    return F.isnan(column) | (F.abs(column) == float("inf"))


def any_of(claims: Iterable[Column]) -> Column:
    """Whether at least one claim holds; an unknown one (null) does not."""
    result = F.lit(False)
    for claim in claims:
        result = result | F.coalesce(claim, F.lit(False))
    return result


def count_if(claim: Column) -> Column:
    """Count 1 where the claim holds, else 0, so that a sum counts rows."""
    return F.when(claim, 1).otherwise(0)
