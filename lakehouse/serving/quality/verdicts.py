"""Rules of a stream with their last runs, from the history of checks.

A rule is shown while the newest run over its table has it. Cost: two columns of the history of
at most ``MOST_DAYS`` days before the stream's newest run, 2 s for 10^7 verdicts, and the rows of ``RUNS`` runs.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb

from lakehouse.serving.literals import parquet_of, text
from lakehouse.serving.table_reader import named_rows
from lakehouse.storage.stores.store_path import Location

RUNS, MOST_DAYS = 30, 30
DAY_US = 86_400_000_000
# Tables of rules that the stream declares; the first stop nothing, and rows that break one of the third are rejected.
WARNINGS, REJECTIONS = ("warnings", "time_warnings"), "rejections"
OWN = ("rules", "time_rules", *WARNINGS, REJECTIONS)
Fields = dict[str, Any]


def subjects(connection: duckdb.DuckDBPyConnection, table: Location) -> list[str]:
    """Return the streams and queries that were ever checked."""
    stored = parquet_of(table)
    return (
        []
        if stored is None
        else sorted(row[0] for row in connection.execute(f"SELECT DISTINCT stream FROM {stored}").fetchall())
    )


def rules_of(
    connection: duckdb.DuckDBPyConnection, table: Location, subject: str, end_us: int
) -> list[Fields]:
    """Return the rules that checks before a time judged, those that do not hold first."""
    stored = parquet_of(table)
    if stored is None:
        return []
    before = f'stream = {text(subject)} AND "at" < {moment(end_us)}'
    newest = connection.execute(f'SELECT epoch_us(max("at")) FROM {stored} WHERE {before}').fetchall()[0][0]
    if newest is None:
        return []
    of_subject = f'{before} AND "at" >= {moment(newest - MOST_DAYS * DAY_US)}'
    columns = "expectation, says, success, observed, expected, seen, judged, broken, sources"
    rows = named_rows(
        connection,
        f'WITH every AS (SELECT DISTINCT "table", "at" FROM {stored} WHERE {of_subject}), '
        f'last AS (SELECT "table", unnest(max("at", {RUNS})) AS "at" FROM every GROUP BY "table") '
        f'SELECT "table", {columns}, epoch_us("at") AS at_us FROM {stored} JOIN last USING ("table", "at") '
        f'WHERE {of_subject} ORDER BY "table", expectation, at_us',
    )
    # The last one of a table in order of time is its newest.
    newest_of = {row["table"]: row["at_us"] for row in sorted(rows, key=lambda row: int(row["at_us"]))}
    by_rule: dict[tuple[str, str], list[Fields]] = {}
    for row in rows:
        by_rule.setdefault((row["table"], row["expectation"]), []).append(row)
    runs = [of_rule for (of, _), of_rule in by_rule.items() if of_rule[-1]["at_us"] == newest_of[of]]
    order = ("fails", "warns", "rejects", "holds")
    rules = list(map(_rule, runs))
    return sorted(rules, key=lambda rule: (order.index(rule["state"]), not rule["is_own"]))


def _rule(runs: Sequence[Fields]) -> Fields:
    """Return a rule, as its newest run judged it, with all of its runs, oldest first."""
    newest = runs[-1]
    return {
        "rule": f"{newest['table']}.{newest['expectation']}",
        "says": newest["says"] or newest["expectation"],
        "is_own": newest["table"] in OWN,
        "state": _state(newest),
        "since_us": _since(runs),
        "observed": newest["observed"],
        "expected": newest["expected"],
        "seen": _seen(newest),
        "judged": newest["judged"],
        "broken": newest["broken"],
        "worst": newest["sources"] or {},
        "checked_us": newest["at_us"],
        "runs": [{"at_us": run["at_us"], "state": _state(run), "value": _value(run)} for run in runs],
    }


def _state(run: Fields) -> str:
    if not run["success"]:
        return "warns" if run["table"] in WARNINGS else "fails"
    return "rejects" if run["table"] == REJECTIONS and run["broken"] else "holds"


def _seen(run: Fields) -> str:
    """Return what a run observed; of a rule of the platform only where it does not hold."""
    if run["table"] in OWN:
        return run["seen"] or ""
    if run["success"]:
        return ""
    observed = "nothing" if run["observed"] is None else f"{run['observed']:g}"
    where = f" ({run['seen']})" if run["seen"] else ""
    return f"{observed} was observed{where}, expected {run['expected']}"


def _since(runs: Sequence[Fields]) -> int:
    """Return when the newest state began, as far as the runs go back."""
    since, state = runs[-1]["at_us"], _state(runs[-1])
    for run in reversed(runs):
        if _state(run) != state:
            break
        since = run["at_us"]
    return int(since)


def _value(run: Fields) -> float | None:
    """Return the share of rows that broke the rule, or what else was observed."""
    if run["judged"] is not None:
        return float(run["broken"] / run["judged"]) if run["judged"] else 0.0
    return None if run["observed"] is None else float(run["observed"])


def moment(time_us: int) -> str:
    """Return microseconds since the epoch as DuckDB compares them with stored times."""
    return f"TIMESTAMPTZ '{datetime.fromtimestamp(0, UTC) + timedelta(microseconds=time_us)}'"
