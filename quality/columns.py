"""Claims about columns, and how rows that break them are counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column


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
