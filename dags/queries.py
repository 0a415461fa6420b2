"""Run every registered query on new ingest batches: results at once, and a log of rows that may have missed some.

- **Job** `jobs/run_queries.py`, one task per query; a query that shares scans with others takes these along
- **Reads** `raw` and `ledger` of the query's streams, and its own `states`
- **Writes** `pairs`, `multiway`, `selection`, or `answers` and `alarms`; `missed_rows`, `states`, `operators`,
  `queries`; its results start `publish`
- **If a query is stopped**, because one of its operators raised an error, only its task fails, with operator, batch
  and error
- **If it is late** results are as old as the last run; the next one processes everything that has been ingested
- **While `tidemark serve` runs** it skips the service's streams, with the reason
"""

from typing import Any

from airflow.sdk import DAG

from dags._assets import EVENTS, any_of, asset
from dags._choice import choice, task_of, unserved
from dags._defaults import SEVERAL, dag_defaults
from dags._events import report
from dags._params import QUERIES
from dags._step import step
from lakehouse.config.airflow.homes import AirflowHome, airflow_homes


def queries(home: AirflowHome) -> Any:
    """Return the DAG of a home."""

    @choice
    def choose(events: str, params: Any = None) -> list[str]:
        return unserved(params, "query", events)

    @step(multiple_outputs=False, post_execute=report)
    def join(query: str, params: Any = None) -> dict[str, Any]:
        from jobs import run_queries
        from jobs.running.scheduled import run_one

        return run_one(run_queries.run, query, params)

    with DAG(
        schedule=any_of(home, "raw") if home.queries else None,
        doc_md=__doc__,
        **dag_defaults(home, "queries", "queries", QUERIES) | SEVERAL,
    ) as made:
        joins = [
            task_of(join, {"query": name}, outlets=[asset(home, "results", name)]) for name in home.queries
        ]
        choose(EVENTS) >> joins
    return made


for home in airflow_homes():
    queries(home)
