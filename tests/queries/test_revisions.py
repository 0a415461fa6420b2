"""Results where rows are revised: those of the newest rows alone, whatever the kind of query and the order of jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs import build_rollups, ingest
from lakehouse.queries.kind import KINDS
from lakehouse.settings import load_settings
from lakehouse.storage.corrections import waiting_revisions
from tests.oracles.queries.colliding_keys import PAIRS_OF_TEXTS
from tests.queries.laws import Life, Row
from tests.queries.multiway.streams import NAMES, some_rows
from tests.queries.test_withdrawal import deviations, shifted
from tests.support.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


class Revised(Life):
    """A life whose streams may be revised; its rows are the newest of each room and time."""

    def land(self, rows: Mapping[str, Sequence[Row]], file: str | None = None) -> None:
        """Land some more rows of some streams, as a file of this name or number, and take them in."""
        self.landed += 1
        for name, some in rows.items():
            folder = Path(self.settings.streams[name].source.path).parent
            folder.mkdir(parents=True, exist_ok=True)
            (folder / (file or f"{self.landed}.ndjson")).write_text(
                "".join(json.dumps(row) + "\n" for row in some)
            )
            every = [*self.rows[name], *sorted(some, key=lambda row: row["received"])]
            # Without a room a row has no identity.
            newest = {
                (row["room"], row["ts"]) if row["room"] else place: row for place, row in enumerate(every)
            }
            self.rows[name] = list(newest.values())
            ingest.run(self.settings, self.spark, name)


@pytest.fixture(params=list(KINDS))
def life(
    request: pytest.FixtureRequest, spark: SparkSession, on_spark: SparkSession, tmp_path: Path
) -> Revised:
    found = Revised.begin(spark, on_spark, tmp_path, request.param)
    assert isinstance(found, Revised)
    config = tmp_path / "tidemark.toml"
    declared = 'identity = ["room", "ts"]\nrevisions = "newest"\nkeys = ["room"]'
    config.write_text(config.read_text().replace('keys = ["room"]', declared))
    found.settings = load_settings(config)
    return found


@pytest.mark.parametrize("seed", [4, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 20))])
def test_whatever_is_revised_results_are_those_of_the_newest_rows(life: Revised, seed: int) -> None:
    dice = np.random.default_rng(seed)
    parts = dice.permutation(6).tolist()

    def land() -> None:
        some = some_rows(seed + 100, parts.pop(), 60)
        # No clock is ahead.
        more = {
            name: [{**row, "ts": min(row["ts"], row["received"])} for row in some[name]] for name in NAMES
        }
        for name in NAMES:
            known = [row for row in life.rows[name] if row["room"]]
            for place in dice.integers(len(known), size=6).tolist() if known else ():
                changed = {"value": float(dice.integers(11)), "floor": int(dice.integers(3))}
                more[name].append({**known[place], **changed})
        life.land(more)

    land()
    while parts:
        [land, land, life.run, life.repair][dice.integers(4)]()
    life.run()
    life.repair()
    life.run()
    life.repair()

    assert life.found(life.name) == life.truth()
    assert deviations(life) == []
    assert all(waiting_revisions(life.settings.layout, name) is None for name in NAMES)


def test_rows_whose_places_have_the_hash_of_revised_ones_stay(life: Revised) -> None:
    first, second = PAIRS_OF_TEXTS[0]
    part = life.part(0)
    life.land(part, first)
    life.land(shifted(part), second)
    life.run()
    life.repair()
    build_rollups.run(life.settings, life.spark, "doors")
    life.land({"doors": [{**row, "value": 7.0} for row in part["doors"]], "badges": [], "alerts": []})

    for _ in range(2):
        life.run()
        life.repair()

    assert life.found(life.name) == life.truth()
    raw = table_rows(life.settings.layout.raw("doors"), "source_file")
    assert len(raw) == len(life.rows["doors"])
    build_rollups.run(life.settings, life.spark, "doors")
    counted = "sum(rows) FILTER (level = 1 AND grouping = 0)"
    assert table_rows(life.settings.layout.rollup("doors"), counted) == [(len(raw),)]
