"""Sums of doubles as two columns, in Spark: what lakehouse/algorithms/rollup/runs.py does, as expressions."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def collected(name: str) -> list[Column]:
    """Return what a group keeps of a measure's sums, for ``totalled``: pairs, and whether each has its carry."""
    total, carry = F.col(f"{name}__sum"), F.col(f"{name}__carry")
    pair = F.struct(total.alias("total"), F.coalesce(carry, F.lit(0.0)).alias("carry"))
    return [
        F.collect_list(F.when(total.isNotNull(), pair)).alias(f"{name}__pairs"),
        F.min(F.when(total.isNotNull(), carry.isNotNull())).alias(f"{name}__known"),
    ]


def totalled(groups: DataFrame, measures: Sequence[str]) -> DataFrame:
    """Return groups with what was collected of each measure's sums added up: a sum and a carry each."""
    added = [column for name in measures for column in _totalled(name)]
    return groups.select("*", *added).drop(
        *(f"{name}__{part}" for name in measures for part in ("pairs", "known"))
    )


def _totalled(name: str) -> list[Column]:
    pairs = F.col(f"{name}__pairs")
    first = F.get(pairs, F.lit(0))
    rest = F.slice(pairs, F.lit(2), F.size(pairs))
    whole = F.when(F.size(pairs) > 1, F.aggregate(rest, first, _added)).otherwise(first)
    known = F.when(F.col(f"{name}__known"), whole["carry"])
    return [whole["total"].alias(f"{name}__sum"), known.alias(f"{name}__carry")]


def _added(one: Column, other: Column) -> Column:
    high, lost = _two_sum(one["total"], other["total"])
    low, lost_low = _two_sum(one["carry"], other["carry"])
    high, lost = _quick_sum(high, lost + low)
    total, carry = _quick_sum(high, lost_low + lost)
    # Of a sum beyond the largest double nothing is left.
    return F.struct(total.alias("total"), F.nanvl(carry, F.lit(0.0)).alias("carry"))


def _two_sum(one: Column, other: Column) -> tuple[Column, Column]:
    together = one + other
    seen = together - one
    return together, (one - (together - seen)) + (other - seen)


def _quick_sum(large: Column, small: Column) -> tuple[Column, Column]:
    together = large + small
    return together, small - (together - large)
