"""Publish one immutable version for analysts from the checked tables of all streams.

- **Job** `jobs/publish.py`, one task for all streams, because a version holds them all
- **Reads** `rollup` and `ledger`; of registered queries `pairs`, `multiway`, `selection`, `answers`, `alarms`,
  `missed_rows`, `queries`, `repairs`
- **Writes** `serving/<version>.duckdb`, sometimes a segment, then the pointer; deletes versions that nobody reads
- **If it is late** analysts keep the version before, whole and unchanged
- **While `tidemark serve` runs** it skips the service's streams, with the reason
"""

from typing import Any

from airflow.sdk import DAG

from dags._assets import any_of, asset
from dags._choice import leave_to_service
from dags._defaults import dag_defaults
from dags._events import report_change
from dags._step import step
from lakehouse.config.airflow.homes import AirflowHome, airflow_homes


def publish(home: AirflowHome) -> Any:
    """Return the DAG of a home."""

    @step(multiple_outputs=False, outlets=[asset(home, "serving")], post_execute=report_change)
    def release(params: Any = None) -> dict[str, Any]:
        from jobs import publish
        from jobs.running.scheduled import run_all

        leave_to_service(params)
        figures = run_all(publish.run, params)
        return figures | {"position": figures["version"]}

    with DAG(
        schedule=any_of(home, "checked", "results"),
        doc_md=__doc__,
        **dag_defaults(home, "publish", "serving"),
    ) as made:
        release()
    return made


for home in airflow_homes():
    publish(home)
