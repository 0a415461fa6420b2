"""What the taker of a lease copies costs what is new, however many manifests the stream has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lakehouse.home.control.copies import _PAGE, _SINCE
from lakehouse.home.control.session import Session
from tests.home.control.postgres import Postgres

pytestmark = pytest.mark.slow
ROWS, NEW = 20_000, 3
FILL = (
    "INSERT INTO tidemark_files SELECT :home, 'manifests/t/' || n, 'raw/t', n, '{}' "
    "FROM generate_series(1, CAST(:rows AS int)) AS n"
)


def steps(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from steps(each)


def test_a_lease_reads_no_row_that_the_home_has_copied(server: Postgres) -> None:
    session = Session(server.url)
    home = "a home of many manifests"
    assert session.take(home, "raw/t", "a test") is not None
    session.change(FILL, home=home, rows=ROWS)
    session.change("ANALYZE tidemark_files")
    values = {"home": home, "copied": json.dumps({"raw/t": ROWS - NEW}), "most": _PAGE}

    found = session.rows(_SINCE, **values)
    [[[told]]] = session.rows(f"EXPLAIN (ANALYZE, FORMAT JSON) {_SINCE}", **values)
    session.give_back(home, "raw/t")

    assert [row[1] for row in found] == [ROWS - 2, ROWS - 1, ROWS]
    read = [each["Actual Rows"] + each.get("Rows Removed by Filter", 0) for each in steps(told["Plan"])]
    assert max(read) == NEW
