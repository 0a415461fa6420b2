"""Fail, and so raise an alert, if `tidemark serve` is stalled; while it runs, start checks of what it ingests.

- **Job** `jobs/watch_service.py`
- **Reads** the heartbeat in `heartbeats`; writes nothing
- **If it is late** a service that died is noticed later; nothing else depends on it
- **If it fails** look at the service's log and start it again: it continues where it was
- **If no service runs** it skips, and the other DAGs do all the work
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import dag, task

from dags._defaults import ROLLUP, WATCH_SCHEDULE, dag_defaults
from dags._step import step


@dag(dag_id="watch", schedule=WATCH_SCHEDULE, doc_md=__doc__, tags=["tidemark", "service"], **dag_defaults())
def watch() -> None:
    """Look at the heartbeat, then report that rollup is new, so that quality checks it."""

    @step(multiple_outputs=False, retries=0)
    def look(params: Any = None) -> dict[str, Any]:
        from airflow.sdk.exceptions import AirflowSkipException

        from jobs import watch_service
        from jobs.running.scheduled import configured

        outcome = watch_service.run(configured(params))
        if outcome["state"] == "none":
            raise AirflowSkipException("no service runs on this home, or it was stopped")
        return outcome

    @task(outlets=[ROLLUP])
    def served(outcome: Any) -> Any:
        return outcome

    served(look())


watch()
