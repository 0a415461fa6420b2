from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.storage.control.outcomes import has_run_since, record
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import commit_at

COMMITTED_S = 1_700_000_000.0


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with a ledger of three commits, of which the one of version 2 is of ``COMMITTED_S``."""
    layout = Home(tmp_path)
    for number in range(3):
        write_deltalake(str(layout.ledger("readings")), pa.table({"batch": [number]}), mode="append")
    os.utime(commit_at(layout.ledger("readings"), 2), (COMMITTED_S, COMMITTED_S))
    return layout


def ended(home: Home, after_s: float, ok: bool = True) -> bool:
    started = datetime.fromtimestamp(COMMITTED_S + after_s, UTC)
    record(home, "maintain", "readings", ok, started, 1.0, {})
    return has_run_since(home, "maintain", "readings", home.ledger("readings"), 2)


def test_a_run_counts_that_began_after_the_commit_and_ended_well(home: Home) -> None:
    assert ended(home, 1.0)
    assert not ended(home, -1.0)
    assert not ended(home, 1.0, ok=False)


def test_a_run_that_was_killed_leaves_no_outcome_and_is_due(home: Home) -> None:
    assert not has_run_since(home, "maintain", "readings", home.ledger("readings"), 2)


def test_before_the_first_commits_none_is_due(home: Home) -> None:
    assert has_run_since(home, "maintain", "readings", home.ledger("readings"), 0)


def test_of_a_commit_that_was_cleaned_away_any_run_counts(home: Home) -> None:
    commit_at(home.ledger("readings"), 2).unlink()
    assert ended(home, -100.0)
