"""Needed slack from repairs, without a JVM: tables written by hand, and one bucket joined and repaired in Arrow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.queries.pairs.held_join import policy_of
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.runtime.batch_manifest import (
    BatchManifest,
    Scale,
    last_planned,
    require_manifest,
    write_manifest,
)
from lakehouse.queries.runtime.recall.needed_slack import missed_by_bucket
from lakehouse.settings import Settings
from lakehouse.storage.layout import Home
from tests.queries.joined import declare
from tests.serving.streams import write_delta

SECOND = 1_000_000
# Repair 1 has looked at batch 1, repair 2 at batches 2 and 3.
REPAIRS = {"repair": [1, 2], "through": [1, 3]}
FIGURES = {
    "batch": [1, 1, 2, 2, 3, 3],
    "bucket": [0, 1, 0, 1, 0, 1],
    "time_us": [100 * SECOND, None, 200 * SECOND, 150 * SECOND, 300 * SECOND, 250 * SECOND],
}
MISSED = {
    "repair": [1, 1, 2, 3],
    "bucket": [0, 1, 0, 0],
    "from_us": [90 * SECOND, 90 * SECOND, 150 * SECOND, 300 * SECOND],
    "side": [0, 1, 1, 0],
    "slack_us": [10_000, 20_000, 30_000, 40_000],
    "pairs": [5, 6, 7, 8],
}


def plan(number: int, through_repair: int = 0, *later: Scale) -> BatchManifest:
    """Return what a batch takes, in two buckets unless it is cut otherwise later."""
    return BatchManifest(number, ((0, 1), (0, 1)), through_repair, (Scale(1, 2), *later))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return declare(tmp_path)


def repaired(settings: Settings, *plans: BatchManifest) -> tuple[Home, PairsQuery]:
    """Write two repairs and these plans of batches."""
    layout, query = settings.layout, settings.of_kind(PairsQuery)["replies"]
    for plan in plans:
        write_manifest(layout.batch_manifests(query.name), "batch", plan)
    small = pa.int32()
    for table, columns in (
        (layout.repairs(query.name), REPAIRS),
        (layout.queries(query.name), FIGURES),
        (layout.needed_slack(query.name), MISSED),
    ):
        types = {name: small if name in ("bucket", "side") else pa.int64() for name in columns}
        write_delta(pa.table(columns, pa.schema(list(types.items()))), table)
    return layout, query


def told(layout: Home, query: PairsQuery) -> dict[int, tuple[int, list[Any]]]:
    folder = layout.batch_manifests(query.name)
    last = require_manifest(folder, "batch", last_planned(folder))
    return {
        bucket: (until, rows.tolist())
        for bucket, (until, rows) in missed_by_bucket(layout, query, last, policy_of(query)).items()
    }


def test_a_batch_is_told_of_all_repairs_up_to_the_one_its_plan_names(settings: Settings) -> None:
    layout, query = repaired(settings, plan(1), plan(2, through_repair=2))

    found = told(layout, query)

    first, second = [90 * SECOND, 0, 10_000, 5], [150 * SECOND, 1, 30_000, 7]
    assert found[0] == (300 * SECOND, [first, second])
    assert found[1] == (250 * SECOND, [[90 * SECOND, 1, 20_000, 6]])


def test_buckets_of_another_scale_are_told_of_those_from_which_they_go_on(settings: Settings) -> None:
    """Batches 2 and 3 are cut into one bucket, the next ones into four."""
    later = Scale(2, 1), Scale(4, 4)
    layout, query = repaired(settings, plan(1), plan(2, 2, *later))

    found = told(layout, query)

    first, second = [90 * SECOND, 0, 10_000, 5], [150 * SECOND, 1, 30_000, 7]
    assert found == dict.fromkeys(range(4), (300 * SECOND, [first, second]))


def test_a_bucket_that_had_no_stream_time_yet_is_told_nothing(settings: Settings) -> None:
    layout, query = repaired(settings, plan(1, through_repair=1))

    assert told(layout, query) == {0: (100 * SECOND, [[90 * SECOND, 0, 10_000, 5]])}


def test_a_batch_is_told_once(settings: Settings) -> None:
    layout, query = repaired(settings, plan(1, through_repair=2), plan(2, through_repair=2))

    assert told(layout, query) == {}


def test_what_is_older_than_the_policy_remembers_is_left_out(settings: Settings) -> None:
    layout, query = repaired(settings, plan(1, through_repair=2))

    # Ten periods of 4 s and the quarter that is not full yet.
    brief = replace(query, period_us=4 * SECOND, step_us=SECOND)

    rows = [row for _, rows in told(layout, brief).values() for row in rows]
    assert rows == []


def test_a_policy_that_does_not_listen_is_told_nothing(settings: Settings) -> None:
    layout, query = repaired(settings, plan(1, through_repair=2))

    assert told(layout, replace(query, policy="paper")) == {}


def test_a_repair_that_found_nothing_is_told_as_well(settings: Settings) -> None:
    layout, query = repaired(settings, plan(1, through_repair=1))
    for path in layout.needed_slack(query.name).rglob("*"):
        path.unlink() if path.is_file() else None

    (until, rows) = missed_by_bucket(layout, query, plan(1, through_repair=1), policy_of(query))[0]

    assert until == 100 * SECOND
    assert np.shape(rows) == (0, 4)
