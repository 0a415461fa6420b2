"""The facts of a registered join of three streams or more -> its results, its row in ``queries``.

Cost: one sort of its results; see ``query_rows.py``.
"""

from __future__ import annotations

import duckdb

from lakehouse.queries.multiway.facts import MultiwayFacts
from lakehouse.queries.runtime.batch_metrics import is_finished, is_open
from lakehouse.queries.runtime.catalogue import add_query
from lakehouse.queries.runtime.published_rows import write_rows
from lakehouse.serving.file.facts import RESULTS_FILE
from lakehouse.serving.literals import name, parquet


def write_results(connection: duckdb.DuckDBPyConnection, query: MultiwayFacts) -> None:
    """Write everything of one query; the catalogue tables are there."""
    table = name(f"results_{query.name}")
    write_rows(
        connection,
        table,
        f"The results of {query.name}; see queries.",
        RESULTS_FILE,
        query.columns,
        query.result_files,
        is_finished(query.batches, query.repairs),
        query.published_from_us,
    )
    own = {
        "pairs": query.results,
        "slack_us": query.slack_us,
        "final_before_us": _final_before(connection, query),
    }
    counted = {"published": f"FROM {table}", "open": f"FROM ({_open(query)})"}
    add_query(connection, query, "results", own, counted)


def _final_before(connection: duckdb.DuckDBPyConnection, query: MultiwayFacts) -> int | None:
    """Return the time before which results are final: as late as streams allow, and before all that waits."""
    if query.time_us is None:
        return None
    passed = query.time_us - query.latest_us
    waiting = connection.execute(f"SELECT min(event_us) FROM ({_open(query)})").fetchone()
    return passed if waiting is None or waiting[0] is None else min(passed, waiting[0])


def _open(query: MultiwayFacts) -> str:
    """Return SQL for the event times of logged rows that no repair has looked at."""
    if not query.late_files:
        return "SELECT 0::BIGINT AS event_us WHERE false"
    return (
        f"SELECT event_us FROM {parquet(query.late_files)} "
        f"WHERE {is_open(query.repaired_through, query.batches)}"
    )
