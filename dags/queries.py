"""Run every registered query on new ingest batches: results at once, and a log of rows that may have missed some.

- **Job** `jobs/run_queries.py`, one task per query; a query that shares scans with others takes these along
- **Reads** `raw` and `ledger` of the query's streams, and its own `states`
- **Writes** `pairs`, `multiway`, `selection`, or `answers` and `alarms`; `missed_rows`, `states`, `operators`,
  `queries`; published next
- **If a query is stopped**, because one of its operators raised an error, only its task fails, with operator, batch
  and error
- **If it is late** results are as old as the last run; the next one processes everything that has been ingested
- **While `tidemark serve` runs** it skips the service's streams, with the reason
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import dag

from dags._defaults import RAW, dag_defaults, of_queries
from dags._service_skip import unserved
from dags._step import step


@dag(
    dag_id="queries",
    schedule=[RAW],
    doc_md=__doc__,
    tags=["tidemark", "queries"],
    **dag_defaults(of_queries()),
)
def queries() -> None:
    """Run each registered query on new batches."""

    @step()
    def choose(params: Any = None) -> list[str]:
        return unserved(params, "query")

    @step(multiple_outputs=False, map_index_template="{{ query }}")
    def join(query: str, params: Any = None) -> dict[str, Any]:
        from jobs import run_queries
        from jobs.running.scheduled import run_one

        return run_one(run_queries.run, query, params)

    join.expand(query=choose())


queries()
