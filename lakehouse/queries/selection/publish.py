"""The facts of a registered selection -> its rows, its row in ``queries``.

Cost: one sort of its rows; see ``query_rows.py``.
"""

from __future__ import annotations

import duckdb

from lakehouse.queries.runtime.catalogue import add_query
from lakehouse.queries.runtime.published_rows import write_rows
from lakehouse.queries.selection.facts import SelectionFacts
from lakehouse.serving.file.facts import SELECTED_FILE
from lakehouse.serving.literals import name


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
