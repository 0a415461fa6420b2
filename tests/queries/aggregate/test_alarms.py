"""Names of alarms: the same, whether Spark or this process makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.queries.aggregate.alarms import named, named_here
from tests.queries.answered import TEXT, declare, query_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.queries.aggregate.query import AggregateQuery


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> AggregateQuery:
    folder: Path = tmp_path_factory.mktemp("declared")
    return query_of(TEXT, declare(folder).streams)


def changes(
    query: AggregateQuery, groups: list[Any], raised_us: list[int], known: list[str | None]
) -> pa.Table:
    [group] = query.groups
    names = pa.array(known, pa.string())
    return pa.table(
        {"alarm": names, group.name: pa.array(groups), "raised_us": pa.array(raised_us, pa.int64())}
    )


GROUPS = st.one_of(
    st.lists(st.none() | st.text(max_size=3), min_size=1, max_size=9),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9),
    st.lists(st.booleans(), min_size=1, max_size=9),
)


@pytest.mark.spark
@pytest.mark.parametrize("batch", [0, 7])
def test_spark_gives_the_same_names(query: AggregateQuery, spark: SparkSession, batch: int) -> None:
    groups = ["kitchen", None, "", "Łódź", *map(str, range(500))]
    raised = [1_800_000_000_000_000 + 977 * place for place in range(len(groups))]
    told = changes(query, groups, raised, [None, "kept", *[None] * (len(groups) - 2)])

    here = named_here(told, query, "online", batch)

    there = named(spark.createDataFrame(told), query, "online", batch).toArrow()
    assert here["alarm"].to_pylist() == there["alarm"].to_pylist()
    # Of 500 hashes some begin with a nought, which Spark does not write.
    assert min(len(name) for name in here["alarm"].to_pylist()[2:]) < 16


@pytest.mark.slow
@given(GROUPS, st.integers(0, 2**62), st.integers(0, 10**6))
def test_new_alarms_of_one_run_have_names_of_their_own_and_known_ones_keep_theirs(
    query: AggregateQuery, groups: list[Any], first_us: int, batch: int
) -> None:
    raised = [first_us + place for place in range(len(groups))]
    known = ["as before" if place == 1 else None for place in range(len(groups))]

    names = named_here(changes(query, groups, raised, known), query, "online", batch)["alarm"].to_pylist()

    assert len({*names}) == len(groups)
    assert names[1:2] in ([], ["as before"])
