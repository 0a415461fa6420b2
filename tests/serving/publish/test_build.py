from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from lakehouse.serving.ask.ask import ask
from lakehouse.serving.publish.publish import publish
from lakehouse.storage.layout import Home
from tests.serving.conftest import STREAMS, Lakehouse


def rows(lakehouse: Lakehouse, text: str) -> list[tuple[Any, ...]]:
    return lakehouse.reader.connection.execute(text).fetchall()


def test_nodes_are_sorted_by_slot_and_start(lakehouse: Lakehouse) -> None:
    stored = rows(lakehouse, "SELECT slot, start_us FROM segment.nodes ORDER BY rowid")

    assert stored == sorted(stored)
    assert len(stored) == len(set(stored))


def test_no_node_lies_below_its_horizon(lakehouse: Lakehouse) -> None:
    below = rows(
        lakehouse, "SELECT count(*) FROM levels WHERE horizon_us IS NOT NULL AND from_us < horizon_us"
    )

    assert below == [(0,)]


def test_every_node_has_a_parent_that_holds_at_least_its_values(lakehouse: Lakehouse) -> None:
    orphans = rows(
        lakehouse,
        """
        SELECT count(*) FROM nodes AS child
        JOIN ladder ON child.slot // 4294967296 = first_slot // 4294967296
        ANTI JOIN nodes AS parent ON parent.start_us = child.parent_us AND parent.n >= child.n
            AND parent.slot = child.slot + 4294967296
        WHERE ladder.parent_width_us > 0
        """,
    )

    assert orphans == [(0,)]


def test_each_grouping_has_a_series_per_combination_of_values(lakehouse: Lakehouse) -> None:
    expected = {(row.device, str(row.zone)) for row in STREAMS["keyed"].rows}

    found = rows(
        lakehouse, "SELECT key_values FROM series JOIN streams USING (stream_id) WHERE stream = 'keyed'"
    )

    assert {tuple(values) for (values,) in found} == expected


def test_the_ladder_says_which_grouping_refines_which(lakehouse: Lakehouse) -> None:
    (told,) = lakehouse.reader.connection.execute(
        "SELECT groupings FROM ladder WHERE stream = 'deep' AND measure = 'hits' AND level = 1"
    ).fetchall()[0]

    series = len({(row.device, row.zone) for row in lakehouse.streams["deep"].rows})
    devices = len({row.device for row in lakehouse.streams["deep"].rows})
    finest = {"refined_by": told[-1]["id"], "refined_series": series}
    assert [one["key_names"] for one in told] == [[], ["device"], ["device", "zone"]]
    assert told[0].items() >= (finest | {"refined_rows": 4 * series}).items()
    assert told[1].items() >= (finest | {"refined_rows": 4 * series // devices}).items()
    assert (told[2]["refined_by"], told[2]["refined_rows"]) == (None, None)


def test_exact_sums_are_kept_in_units_of_the_last_digit(lakehouse: Lakehouse) -> None:
    total = sum(row.price for row in STREAMS["flat"].rows if row.price is not None)

    stored = rows(
        lakehouse,
        "SELECT sum(exact_total), max(divisor) FROM nodes JOIN ladder ON slot = first_slot "
        "WHERE stream = 'flat' AND measure = 'price'",
    )

    assert stored == [(int(total * 100), 100.0)]


def test_a_measure_that_came_later_promises_nothing_of_the_time_before(tmp_path: Path) -> None:
    snapshot = STREAMS["pair"].write(tmp_path / "pair")
    publish(Home(tmp_path), [replace(snapshot, since={"temp": 500})])

    (before,) = ask(tmp_path, "pair", "temp", "sum", 0, 400)
    (after,) = ask(tmp_path, "pair", "temp", "sum", 500, 1000)
    (other,) = ask(tmp_path, "pair", "hits", "sum", 0, 1000)

    assert (before.low, before.high, before.exact) == (None, None, False)
    assert after.low is not None and other.low is not None
