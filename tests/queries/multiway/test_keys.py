"""Keys of three streams are compared by value: those of equal hash, which anybody can make, do not join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.queries.runtime.repair import drain_repairs
from lakehouse.settings import Settings
from tests.oracles.queries.colliding_keys import PAIRS_OF_TEXTS
from tests.queries.multiway.streams import NAMES, T0, streams_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOMS = """
SELECT d.room, b.room AS badge, a.room AS alert
FROM doors [8 SECONDS] d JOIN badges [3 SECONDS] b ON d.room = b.room JOIN alerts [15 SECONDS] a ON a.room = b.room
SLACK 2 SECONDS
"""


def _rows(part: int, late: int) -> list[dict[str, Any]]:
    texts = [text for both in PAIRS_OF_TEXTS for text in both]
    return [
        {
            "ts": T0 + 20_000 * part - 1000 * late + at,
            "received": T0 + 20_000 * part + at,
            "room": text,
            "floor": 1,
            "value": 1.0,
        }
        for at, text in enumerate(texts)
    ]


@pytest.mark.parametrize("joins", ["plain", "pruned"])
def test_keys_of_equal_hash_do_not_join_either_way_or_by_repair(
    session: SparkSession, lakehouse_of: Callable[[str], Settings], tmp_path: Path, joins: str
) -> None:
    streams = streams_of(session, lakehouse_of, tmp_path, {"three": ROOMS})
    run = streams.run("three", slots=2**24, joins=joins)
    for part in range(2):
        streams.land({name: _rows(part, 0) for name in NAMES})
        run.drain()
    streams.land({"doors": _rows(1, 30)})
    streams.land({"badges": _rows(1, 30), "alerts": _rows(1, 30)})
    run.drain()
    drain_repairs(run)

    assert streams.results("three", "online") and streams.results("three", "repair")
    assert streams.results("three") == Counter(tuple(times) for (times,) in streams.expected(run.query))
