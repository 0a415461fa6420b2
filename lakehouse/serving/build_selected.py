"""The facts of a registered selection -> its rows, its row in ``queries``.

DuckDB reads the data files of the query's table as they are; nothing is copied before. Cost: one sort of its rows;
memory as DuckDB needs, it spills.
"""

from __future__ import annotations

import duckdb

from lakehouse.serving.catalogue import add_query
from lakehouse.serving.facts import SELECTED_FILE
from lakehouse.serving.literals import literal, name, parquet, text
from lakehouse.serving.selection_facts import SelectionFacts
from sql import statement


def write_selected(connection: duckdb.DuckDBPyConnection, query: SelectionFacts) -> None:
    """Write everything of one query; the catalogue tables are there."""
    table = name(f"selected_{query.name}")
    columns = "".join(f"{name(column.name)} {column.type}, " for column in query.columns)
    connection.execute(
        statement(f"serving/{SELECTED_FILE}").replace("{table}", table).replace("{columns}", columns)
    )
    connection.execute(
        f"COMMENT ON TABLE {table} IS {text(f'The rows that {query.name} selects; see queries.')}"
    )
    for column in query.columns:
        connection.execute(f"COMMENT ON COLUMN {table}.{name(column.name)} IS {text(column.says)}")
    since = literal(query.published_from_us)
    if query.selected_files:
        connection.execute(
            f"""
            INSERT INTO {table} BY NAME
            SELECT *, make_timestamp(event_us) AS event_at FROM {parquet(query.selected_files)}
            WHERE batch <= {query.batches} AND ({since} IS NULL OR event_us >= {since})
            ORDER BY event_us
            """
        )
    final = None if query.time_us is None else query.time_us - query.latest_us
    own = {"pairs": query.selected, "final_before_us": final}
    counted = {"published": f"FROM {table}", "open": "FROM range(0)"}
    add_query(connection, query, "selection", own, counted)
