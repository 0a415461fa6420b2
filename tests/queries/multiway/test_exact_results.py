"""Joins of three to five streams, from the text of a query to its results, against those by definition."""

from __future__ import annotations

from tests.queries.multiway.exact_results import wrong


def test_results_are_those_by_definition_whichever_way_batches_are_joined() -> None:
    assert [different for seed in range(60) if (different := wrong(seed)[1])] == []
