from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.runtime.batch_manifest import BatchManifest, write_manifest
from lakehouse.queries.runtime.state import Facts, overview
from lakehouse.settings import Settings
from lakehouse.storage.query_meaning import replace_definition
from tests.queries.joined import AT, SECOND, START_US, TEXT, declare, run_by_hand, write_figures, write_ledger


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return declare(tmp_path)


def _facts(settings: Settings) -> Facts:
    (facts,) = overview(settings.layout, settings.of_kind(PairsQuery))["queries"]
    found: Facts = facts
    return found


def test_a_query_that_never_ran_is_new_and_told_what_waits(settings: Settings) -> None:
    write_ledger(settings.layout, "telemetry", 3)

    facts = _facts(settings)

    assert (facts["state"], facts["waiting"]) == ("new", {"telemetry": 3, "flows": 0})
    assert (facts["batches"], facts["rows"], facts["newest_us"], facts["last_batch_age_s"]) == (
        0,
        0,
        None,
        None,
    )


def test_figures_are_sums_over_batches_and_buckets_and_what_is_held_is_the_last_batch_s(
    settings: Settings,
) -> None:
    run_by_hand(settings)

    facts = _facts(settings)

    assert (facts["state"], facts["batches"], facts["rows"]) == ("current", 2, 2440)
    assert (facts["pairs_online"], facts["pairs_repaired"]) == (2850, 150)
    assert (facts["held"], facts["state_bytes"]) == (220, 16_500)
    assert facts["newest_us"] == START_US + 300 * SECOND
    assert (facts["last_batch_at"] - AT).total_seconds() == 120


def test_rows_that_no_repair_has_looked_at_are_open(settings: Settings) -> None:
    run_by_hand(settings)

    assert _facts(settings)["open"] == 2


def test_a_query_is_behind_by_the_ingest_batches_that_no_finished_batch_took(settings: Settings) -> None:
    run_by_hand(settings)
    write_ledger(settings.layout, "flows", 4)
    # Begun and not finished: what it takes still waits.
    write_manifest(settings.layout.batch_manifests("replies"), "batch", BatchManifest(3, ((2, 2), (2, 3))))

    facts = _facts(settings)

    assert (facts["state"], facts["waiting"]) == ("behind", {"telemetry": 0, "flows": 2})


def test_a_query_that_means_something_else_than_its_tables_is_changed(
    tmp_path: Path, settings: Settings
) -> None:
    run_by_hand(settings)

    assert _facts(declare(tmp_path, replies=TEXT.replace("2 SECONDS", "3 SECONDS")))["state"] == "changed"
    assert _facts(declare(tmp_path, replies=TEXT.replace("0.95", "0.9")))["state"] == "current"


def test_a_batch_in_which_no_bucket_had_anything_to_do_counts_and_holds_nothing(settings: Settings) -> None:
    write_figures(settings.layout, "replies", [(1, -1, *[0] * 11)])

    facts = _facts(settings)

    assert (facts["batches"], facts["held"], facts["rows"]) == (1, 0, 0)


def test_tables_of_a_query_that_is_registered_no_longer_are_told(settings: Settings) -> None:
    run_by_hand(settings)
    replace_definition(settings.layout.batch_manifests("old"), "something", "something")

    assert overview(settings.layout, settings.of_kind(PairsQuery))["unregistered"] == ["old"]
    assert overview(settings.layout, {})["unregistered"] == ["old", "replies"]
