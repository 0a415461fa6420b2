from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.multiway_join.contract import Query
from tests.algorithms.multiway_join.streams import Stream, join_of, queries, run, streams
from tests.oracles.multiway_join.dense_synopsis import DenseSynopsis
from tests.oracles.multiway_join.nested_loop import NestedLoop
from tests.oracles.multiway_join.totals import count_results, sum_results
from tests.oracles.multiway_join.vectors import vector_in

quick = settings(max_examples=40, deadline=None)


@quick
@given(data=st.data(), query=queries())
def test_the_count_of_results_is_that_of_the_rows_in_the_windows(data: st.DataObject, query: Query) -> None:
    stream, yardstick, join = data.draw(streams(query)), NestedLoop(query), join_of(query)

    run(join, stream)

    for at_us, blocks in stream:
        yardstick.advance(at_us, blocks)
    synopsis: Any = join.centre.synopsis
    assert count_results(synopsis) == len(list(yardstick.stored()))


@quick
@given(data=st.data(), query=queries())
def test_sums_over_results_are_those_of_the_rows_in_the_windows(data: st.DataObject, query: Query) -> None:
    query = replace(query, windows_us=(None,) * len(query.sites))
    stream: Stream = data.draw(streams(query))
    yardstick, synopsis = NestedLoop(query), DenseSynopsis(len(query.sites), summed=1)

    for at_us, blocks in stream:
        yardstick.advance(at_us, blocks)
        for block in blocks:
            vector = vector_in(synopsis, block.key, block.missing, sums=_numbers(block.row)[:, None])
            synopsis.increment(query.sites.number(block.site), vector)

    rows = np.array(list(yardstick.stored()), np.int64).reshape(-1, len(query.sites))
    assert [sum_results(synopsis, site) for site in range(len(query.sites))] == _numbers(rows).sum(
        axis=0
    ).tolist()


def test_counts_and_sums_are_exact_beyond_64_bits() -> None:
    synopsis, million = DenseSynopsis(4, summed=1), 10**6
    for site in range(4):
        synopsis.increment(site, vector_in(synopsis, [7], counts=[million], sums=[[-3 - site]]))

    assert count_results(synopsis) == million**4
    assert sum_results(synopsis, 1) == -4 * million**3


def test_no_rows_make_no_results() -> None:
    assert count_results(DenseSynopsis(2)) == 0


@pytest.mark.parametrize("column", [-1, 1])
def test_a_column_that_is_not_summed_is_refused(column: int) -> None:
    with pytest.raises(ValueError, match="one of 1 columns of sums"):
        sum_results(DenseSynopsis(2, summed=1), 0, column)


def _numbers(row: Any) -> Any:
    return row * 10 - 15
