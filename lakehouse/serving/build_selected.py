"""The facts of a registered selection -> its rows, its row in ``queries``.

Cost: one sort of its rows; see ``query_rows.py``.
"""

from __future__ import annotations

import duckdb

from lakehouse.serving.catalogue import add_query
from lakehouse.serving.facts import SELECTED_FILE
from lakehouse.serving.literals import name
from lakehouse.serving.query_rows import write_rows
from lakehouse.serving.selection_facts import SelectionFacts


def write_selected(connection: duckdb.DuckDBPyConnection, query: SelectionFacts) -> None:
    """Write everything of one query; the catalogue tables are there."""
    table = name(f"selected_{query.name}")
    write_rows(
        connection,
        table,
        f"The rows that {query.name} selects; see queries.",
        SELECTED_FILE,
        query.columns,
        query.selected_files,
        f"batch <= {query.batches}",
        query.published_from_us,
    )
    final = None if query.time_us is None else query.time_us - query.latest_us
    own = {"pairs": query.selected, "final_before_us": final}
    counted = {"published": f"FROM {table}", "open": "FROM range(0)"}
    add_query(connection, query, "selection", own, counted)
