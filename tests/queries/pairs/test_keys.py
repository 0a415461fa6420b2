"""Keys of pairs, and rows in their log, are compared by value: those of equal hash, which anybody can make, differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakehouse.engine import engine_of
from lakehouse.queries.pairs.held_join import _numbered_anew
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.run import PairsRun
from lakehouse.queries.runtime.batch_manifest import Wanted
from lakehouse.queries.runtime.repair import drain_repairs
from lakehouse.settings import Settings
from lakehouse.spark.row_hash import xxhash64
from tests.oracles.queries.colliding_keys import INTEGERS, PAIRS_OF_TEXTS
from tests.support.table_rows import table_rows
from tests.support.taking_in import take_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = """
[streams.{name}]
event_time = {{ column = "ts", unit = "ms" }}
arrival_time = {{ column = "received", unit = "ms" }}
keys = ["id"]
measures = ["n"]
levels = ["1m forever"]
[streams.{name}.source]
path = "{name}/*"
format = "ndjson"
settle = 0
[streams.{name}.columns]
id = "string"
n = "int"
m = "int"
"""
QUERIES = {
    "texts": "SELECT r.id, s.id AS other FROM r [RANGE 2 SECONDS] JOIN s ON r.id = s.id",
    "numbers": "SELECT r.id, s.id AS other FROM r [RANGE 2 SECONDS] JOIN s ON r.n = s.n AND r.m = s.m",
}
T0 = 1_600_000_000_000


@dataclass
class Case:
    """Rows of two streams whose keys collide, in three batches; those of the last one are late."""

    settings: Settings
    rows: dict[str, list[dict[str, Any]]]

    def expected(self, *keys: str) -> list[tuple[str, str]]:
        pairs = (
            (a["id"], b["id"])
            for a in self.rows["r"]
            for b in self.rows["s"]
            if abs(a["ts"] - b["ts"]) <= 2000 and all(a[key] == b[key] for key in keys)
        )
        return sorted(pairs)


def _rows(part: int) -> list[dict[str, Any]]:
    late = 3 if part == 2 else 0
    texts = [text for both in PAIRS_OF_TEXTS for text in both]
    return [
        {
            "ts": T0 + 10_000 * (part - late) + at,
            "received": T0 + 10_000 * part + at,
            "id": text,
            "n": INTEGERS[at % 3][0],
            "m": INTEGERS[at % 3][1],
        }
        for at, text in enumerate(texts)
    ]


@pytest.fixture
def case(session: SparkSession, lakehouse_of: Callable[[str], Settings], tmp_path: Path) -> Case:
    (tmp_path / "queries").mkdir()
    for name, text in QUERIES.items():
        (tmp_path / "queries" / f"{name}.sql").write_text(f"{text} RECALL 0.5 OVER 10 SECONDS SPARE 0 ROWS")
    found = Case(lakehouse_of('home = "var"\n' + "".join(STREAM.format(name=each) for each in "rs")), {})
    found.rows = {name: [] for name in "rs"}
    return found


def _land(case: Case, session: SparkSession, part: int) -> None:
    for name in "rs":
        rows = [] if (name, part) == ("s", 2) else _rows(part if name == "r" or part else -1)
        _write(case, session, name, f"{part}.ndjson", rows)


def _write(case: Case, session: SparkSession, name: str, file: str, rows: list[dict[str, Any]]) -> None:
    folder = Path(case.settings.streams[name].source.path).parent
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    case.rows[name] += rows
    take_in(case.settings, session, name)


@pytest.mark.parametrize(("query", "keys"), [("texts", ("id",)), ("numbers", ("n", "m"))])
def test_keys_of_equal_hash_do_not_join_online_or_by_repair(
    case: Case, session: SparkSession, query: str, keys: tuple[str, ...]
) -> None:
    assert all(len(set(xxhash64([pa.array(both)], 2).tolist())) == 1 for both in PAIRS_OF_TEXTS)
    asked = case.settings.of_kind(PairsQuery)[query]
    run = PairsRun(engine_of(session), case.settings.layout, asked, case.settings.streams, Wanted(2))
    for part in range(3):
        _land(case, session, part)
        run.drain()
    online = len(table_rows(case.settings.layout.pairs(query), "id"))
    repaired = drain_repairs(run)["found"]
    assert online > 0 and repaired > 0
    assert sorted(table_rows(case.settings.layout.pairs(query), "id", "other")) == case.expected(*keys)


def test_rows_of_files_whose_names_collide_are_not_taken_for_logged_ones(
    case: Case, session: SparkSession
) -> None:
    run = PairsRun(
        engine_of(session),
        case.settings.layout,
        case.settings.of_kind(PairsQuery)["texts"],
        case.settings.streams,
        Wanted(2),
    )
    for file, ts, ahead in (
        (PAIRS_OF_TEXTS[0][0], 1000, 0),
        ("ahead", 60_000, 0),
        (PAIRS_OF_TEXTS[0][1], 1500, 90_000),
    ):
        for name in "rs" if file != PAIRS_OF_TEXTS[0][1] else "r":
            # A row of r comes after its partners.
            own = ts if name == "r" else ts - 1000
            rows = [{**row, "ts": row["ts"] + own, "received": row["ts"] + own + ahead} for row in _rows(0)]
            _write(case, session, name, file, rows)
        run.drain()
    assert drain_repairs(run)["found"] > 0
    assert sorted(table_rows(case.settings.layout.pairs("texts"), "id", "other")) == case.expected("id")


def test_rows_of_equal_place_outlive_a_change_of_scale_if_they_differ() -> None:
    """A band has the same row in several buckets."""
    place = {"source_file": ["f"] * 3, "source_line": [1] * 3, "source_item": pa.nulls(3, pa.int32())}
    columns = {"side": [0, 0, 0], **place, "event_us": [1, 1, 1], "o_id": ["a", "b", "a"]}
    rows = pa.table({**columns, "number": [0, 1, 2], "place": [0, 1, 2]})
    assert _numbered_anew(rows)["o_id"].to_pylist() == ["a", "b"]
