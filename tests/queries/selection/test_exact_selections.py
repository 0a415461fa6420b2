"""Selections that share a scan, from their texts to the rows that are let through, against those by hand."""

from __future__ import annotations

from tests.queries.selection.exact_selections import wrong


def test_selected_are_the_rows_for_which_all_conditions_hold_in_whatever_order_they_are_asked() -> None:
    assert [different for seed in range(100) if (different := wrong(seed)[1])] == []
