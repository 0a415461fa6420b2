"""Delete old raw rows and nodes, fold partial nodes, merge small files and vacuum.

- **Jobs** per stream `jobs/maintain.py` and `jobs/merge_raw.py`, per query `jobs/maintain_queries.py`
- **Reads** every table
- **Writes** every table, without changing an answer; with `keep_raw`, it deletes raw rows that are older
- **If it is late** tables grow and reading them slows down; answers stay right
"""

from typing import Any

from airflow.sdk import DAG

from dags._choice import choice, task_of
from dags._defaults import dag_defaults
from dags._params import QUERIES
from dags._step import step
from lakehouse.config.airflow.homes import AirflowHome, airflow_homes


def maintain(home: AirflowHome) -> Any:
    """Return the DAG of a home."""

    @choice
    def choose(params: Any = None) -> list[str]:
        from jobs.running import chosen

        return chosen.begun_streams(params)

    @step(multiple_outputs=False)
    def compact_and_vacuum(stream: str, params: Any = None) -> dict[str, Any]:
        from jobs import maintain
        from jobs.running.scheduled import run_one

        return run_one(maintain.run, stream, params)

    @step(multiple_outputs=False)
    def merge(stream: str, params: Any = None) -> dict[str, Any]:
        from jobs import merge_raw
        from jobs.running.scheduled import run_one

        return run_one(merge_raw.run, stream, params)

    @choice
    def choose_queries(params: Any = None) -> list[str]:
        from jobs.running import chosen

        return chosen.begun_queries(params)

    @step(multiple_outputs=False)
    def tend_query(query: str, params: Any = None) -> dict[str, Any]:
        from jobs import maintain_queries
        from jobs.running.scheduled import run_one

        return run_one(maintain_queries.run, query, params)

    with DAG(
        schedule=home.settings.maintain, doc_md=__doc__, **dag_defaults(home, "maintain", "tables", QUERIES)
    ) as made:
        chosen = choose()
        for name in home.streams:
            chosen >> task_of(compact_and_vacuum, {"stream": name}) >> task_of(merge, {"stream": name})
        choose_queries() >> [task_of(tend_query, {"query": name}) for name in home.queries]
    return made


for home in airflow_homes():
    maintain(home)
