from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakehouse.home.layout import Home
from lakehouse.home.query_meaning import read_evaluation, require_same
from lakehouse.home.table_commits import create_table
from lakehouse.queries.kind import Query
from lakehouse.queries.registered import parse_query
from lakehouse.queries.runtime.earlier_evaluation import evaluated_before
from tests.queries.declared_streams import stream_of

STREAM = stream_of(columns={"count": "int", "volts": {"type": "decimal", "decimals": 3}})


def begun(layout: Home, where: str) -> Query:
    """Return a selection whose first batch ran before evaluations were recorded."""
    text = f"SELECT device FROM readings WHERE {where}"
    query = parse_query("chosen", text, {"readings": STREAM})
    folder = layout.batch_manifests("chosen")
    require_same(folder, "chosen", query.definition(), text)
    (folder / "evaluation").unlink()
    return query


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("device NOT LIKE 'a%'", "`device` NOT LIKE 'a%'"),
        ("count > 1 AND (count < 5 OR room NOT ILIKE '_')", "`room` NOT ILIKE '_'"),
        ("NOT device LIKE 'a%'", None),
        ("count > 0.5 AND temp < 0.0005", None),
    ],
)
def test_a_condition_that_was_taken_for_another_is_named(
    tmp_path: Path, where: str, found: str | None
) -> None:
    assert evaluated_before(Home(tmp_path), begun(Home(tmp_path), where)) == found


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("volts > 0.0005", "`volts` > 0.0005"),
        ("volts > 0.005", None),
        ("volts > 0.5 AND temp > 0.00005", None),
        ("volts IN (1, 0.0001)", "`volts` IN (1, 0.0001)"),
    ],
)
def test_a_literal_of_more_digits_than_a_decimal_column_is_named(
    tmp_path: Path, where: str, found: str | None
) -> None:
    types = {"device": "string", "temp": "double", "count": "long", "volts": "decimal(38,3)"}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    create_table(Home(tmp_path).raw("readings"), json.dumps({"type": "struct", "fields": fields}))

    assert evaluated_before(Home(tmp_path), begun(Home(tmp_path), where)) == found


def test_a_query_of_this_evaluation_is_not_named(tmp_path: Path) -> None:
    query, folder = begun(Home(tmp_path), "device NOT LIKE 'a%'"), Home(tmp_path).batch_manifests("chosen")
    (folder / "query").unlink()
    assert (read_evaluation(folder), evaluated_before(Home(tmp_path), query)) == (None, None)

    require_same(folder, "chosen", query.definition(), "as written")

    assert (read_evaluation(folder), evaluated_before(Home(tmp_path), query)) == (2, None)
