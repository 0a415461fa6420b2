"""Progress of a batch by clocks that are believed: no file is read whose statistics already tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.engine.local import LocalEngine
from lakehouse.queries.registered import parse_query
from lakehouse.queries.runtime.batch_manifest import BatchManifest
from lakehouse.queries.runtime.progress import Progress, progress
from lakehouse.settings import Settings
from tests.queries.multiway.streams import NAMES, STREAM, T0
from tests.support.taking_in import take_in

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

QUERY = """
SELECT COUNT(*) AS n FROM doors [8 SECONDS] d JOIN badges [8 SECONDS] b ON d.room = b.room
EVERY 2 SECONDS AHEAD 30 SECONDS
"""


class Counting(LocalEngine):
    """Counts the files that it reads."""

    files = 0

    def map(self, items: pa.Table, *own: Any) -> pa.Table:
        self.files += sum(map(len, items["paths"].to_pylist()))
        return super().map(items, *own)


@pytest.mark.parametrize(
    ("leads", "newest", "files"),
    [
        # All arrived at once, the last with a clock of less than AHEAD.
        ([0, 20], 20, 0),
        # One is refused.
        ([0, 40], 0, 1),
        # An hour that arrived at once.
        ([-3600, -1800, 0], 0, 0),
        ([-3600, 31, 30], 30, 1),
    ],
)
def test_only_files_whose_statistics_leave_it_open_are_read(
    session: SparkSession,
    lakehouse_of: Callable[[str], Settings],
    leads: list[int],
    newest: int,
    files: int,
) -> None:
    settings = lakehouse_of('home = "var"\n' + "".join(STREAM.format(name=n, site="here") for n in NAMES))
    query: Any = parse_query("believed", QUERY, settings.streams)
    for name in ("doors", "badges"):
        folder = Path(settings.streams[name].source.path).parent
        folder.mkdir(parents=True)
        rows = [
            {"ts": T0 + lead * 1000, "received": T0, "room": "a", "floor": 1, "value": 1.0}
            for lead in (leads if name == "doors" else [-1])
        ]
        (folder / "1.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
        take_in(settings, session, name)
    engine = Counting()

    found = progress(
        engine, settings.layout, query, BatchManifest(1, ((0, 1), (0, 1))), Progress((None, None), None)
    )

    assert dict(zip(query.streams, found.newest_us, strict=True)) == {
        "doors": (T0 + newest * 1000) * 1000,
        "badges": (T0 - 1000) * 1000,
    }
    assert found.until_us == min(each for each in found.newest_us if each is not None)
    assert engine.files == files
