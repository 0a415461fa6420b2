"""Publish one immutable version for analysts from the checked tables of all streams.

- **Job** `jobs/publish.py`, one task for all streams, because a version holds them all
- **Reads** `rollup` and `ledger`; of registered queries `pairs`, `multiway`, `selection`, `answers`, `alarms`,
  `missed_rows`, `queries`, `repairs`
- **Writes** `serving/<version>.duckdb`, sometimes a segment, then the pointer; deletes versions that nobody reads
- **If it is late** analysts keep the version before, whole and unchanged
- **While `tidemark serve` runs** it skips the service's streams, with the reason
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import dag

from dags._defaults import CHECKED, SERVING, dag_defaults
from dags._service_skip import leave_to_service
from dags._step import step


@dag(dag_id="publish", schedule=[CHECKED], doc_md=__doc__, tags=["tidemark", "serving"], **dag_defaults())
def publish() -> None:
    """Publish, then report that serving is new."""

    @step(multiple_outputs=False, outlets=[SERVING])
    def release(params: Any = None) -> dict[str, Any]:
        from jobs import publish
        from jobs.running.scheduled import run_all

        leave_to_service(params)

        return run_all(publish.run, params)

    release()


publish()
