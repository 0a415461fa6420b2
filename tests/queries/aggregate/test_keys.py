"""Keys and groups of aggregates are compared by value: those of equal hash, which anybody can make, are told apart."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakehouse.queries.runtime.repair import drain_repairs
from lakehouse.settings import Settings
from lakehouse.spark.row_hash import xxhash64
from tests.oracles.queries.colliding_keys import PAIRS_OF_TEXTS
from tests.queries.aggregate.test_run import (
    FIRES,
    NAMES,
    ROUNDS,
    STREAM,
    T0,
    TOTALS,
    Row,
    Streams,
    parts_of,
    same,
)
from tests.support.table_rows import named_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = [text for both in PAIRS_OF_TEXTS for text in both]
# Places and kinds in one order, so that each pair of a kind has one hash.
NAMED = {**{f"p{number}": TEXTS[number] for number in range(6)}, **dict(zip("abc", TEXTS[6:], strict=False))}
WRITTEN = {"totals": TOTALS, "fires": FIRES, "rounds": ROUNDS}
METHODS = {
    "totals": ("factorised", "multiway", "tuple_count"),
    "fires": ("factorised", "multiway", "tuple_count"),
    "rounds": ("view_tree", "multiway"),
}


def test_the_texts_collide() -> None:
    hashes = xxhash64([pa.array(TEXTS)], len(TEXTS)).tolist()
    assert hashes[::2] == hashes[1::2]


@pytest.mark.parametrize("name", WRITTEN)
def test_keys_and_groups_of_equal_hash_are_told_apart_by_every_method_and_by_repair(
    session: SparkSession, lakehouse_of: Callable[[str], Settings], tmp_path: Path, name: str
) -> None:
    (tmp_path / "queries").mkdir()
    for method in METHODS[name]:
        file = tmp_path / "queries" / f"{name}_{method}.sql"
        file.write_text(f"{WRITTEN[name].rstrip()} METHOD {method.upper()}")
    text = 'home = "var"\n' + "".join(STREAM.format(name=each) for each in NAMES)
    streams = Streams(session, lakehouse_of(text))
    runs = [streams.run(f"{name}_{method}", 3) for method in METHODS[name]]
    for part, rows in enumerate(parts_of(7, 200, 2)):
        streams.land(part, {side: [_colliding(row) for row in own] for side, own in rows.items()})
        for run in runs:
            assert run.drain()["answered"] > 0
    for run in runs:
        assert drain_repairs(run)["found"] > 0
        expected = streams.expected(run.query.name)
        assert len(expected) > 20
        assert same(streams.answers(run.query.name), expected), run.query.name
        if run.query.is_alarm:
            held = {(place, kind, tick) for tick, place, kind, _ in expected}
            assert _raised(streams, run.query.name) == {
                (place, kind, tick) for place, kind, tick in held if (place, kind, tick - 1000) not in held
            }


VALUES = """
SELECT h.value, s.kind, COUNT(*) AS n FROM heat [10 SECONDS] h, smoke [10 SECONDS] s
WHERE h.value = s.value GROUP BY h.value, s.kind EVERY 2 SECONDS SLACK 1 SECOND
"""


def test_both_zeros_are_one_key_and_one_group_null_is_a_group_and_no_key(
    session: SparkSession, lakehouse_of: Callable[[str], Settings], tmp_path: Path
) -> None:
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "values.sql").write_text(VALUES)
    text = 'home = "var"\n' + "".join(STREAM.format(name=each) for each in NAMES)
    streams = Streams(session, lakehouse_of(text))
    run, numbers = streams.run("values", 3), (0.0, -0.0, None, 1.5)
    for part in range(2):
        for name in ("heat", "smoke"):
            rows = [
                {**_at(T0 + 4000 * part + 100 * place), "value": number, "kind": kind}
                for place, (number, kind) in enumerate(product(numbers, ("a", None)))
            ]
            streams.land(f"{part}", {name: rows})
        run.drain()
    first = [
        (repr(value), kind, n) for tick, value, kind, n in streams.answers("values") if tick == T0 + 2000
    ]
    # Four rows of heat are zero, and two of smoke of each kind.
    assert sorted(first, key=repr) == [("0.0", "a", 8), ("0.0", None, 8), ("1.5", "a", 2), ("1.5", None, 2)]


def test_rows_of_files_whose_names_collide_are_not_taken_for_late_ones(
    session: SparkSession, lakehouse_of: Callable[[str], Settings], tmp_path: Path
) -> None:
    """A row is identified in the log by a hash of its file and line; a repair does not look for it by that."""
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "totals.sql").write_text(TOTALS)
    streams = Streams(
        session, lakehouse_of('home = "var"\n' + "".join(STREAM.format(name=each) for each in NAMES))
    )
    run, (first, second) = streams.run("totals", 2), PAIRS_OF_TEXTS[0]
    for file, late_ms in ((first, 0), (second, 20_000)):
        for name in ("heat", "smoke"):
            rows = [_at(T0 + 30_000 * (file == second) - late_ms + 500 * place) for place in range(60)]
            streams.land(file, {name: rows})
        run.drain()
    assert drain_repairs(run)["found"] > 0
    assert same(streams.answers("totals"), streams.expected("totals"))


def _at(ts: int) -> Row:
    return {"ts": ts, "received": ts, "place": "hall", "kind": "a", "value": 2.0}


def _colliding(row: Row) -> Row:
    return {**row, "place": NAMED.get(row["place"]), "kind": NAMED.get(row["kind"])}


def _raised(streams: Streams, query: str) -> set[tuple[str, str, int]]:
    """Return the groups of the alarms that stand, and when they were raised."""
    newest = dict[str, Row]()
    for row in sorted(named_rows(streams.settings.layout.alarms(query)), key=lambda row: row["change"]):
        newest[row["alarm"]] = row
    standing = [row for row in newest.values() if row["state"] != "withdrawn"]
    return {(row["place"], row["kind"], row["raised_us"] // 1000) for row in standing}
