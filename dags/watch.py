"""Fail, and so raise an alert, if `tidemark serve` is stalled; while it runs, start checks of what it ingests.

- **Job** `jobs/watch_service.py`
- **Reads** the heartbeat in `heartbeats`; writes nothing
- **If it is late** a service that died is noticed later; nothing else depends on it
- **If it fails** look at the service's log and start it again: it continues where it was
- **If no service runs** it skips, and the other DAGs do all the work
"""

from typing import Any

from airflow.sdk import DAG

from dags._assets import asset, served
from dags._defaults import dag_defaults
from dags._events import report_served
from dags._step import step
from lakehouse.config.airflow.homes import AirflowHome, airflow_homes


def watch(home: AirflowHome) -> Any:
    """Return the DAG of a home."""
    rollups = [asset(home, "rollup", name) for name in home.streams]

    @step(
        **{"multiple_outputs": False, "retries": 0, "pool": "default_pool", "post_execute": report_served},
        inlets=rollups,
        outlets=[served(home)],
    )
    def look(params: Any = None) -> dict[str, Any]:
        from airflow.sdk.exceptions import AirflowSkipException

        from jobs import watch_service
        from jobs.running.scheduled import configured, served_positions

        outcome = watch_service.run(configured(params))
        if outcome["state"] == "none":
            raise AirflowSkipException("no service runs on this home, or it was stopped")
        return outcome | {"positions": served_positions(params)}

    with DAG(schedule=home.settings.watch, doc_md=__doc__, **dag_defaults(home, "watch", "service")) as made:
        look()
    return made


for home in airflow_homes():
    watch(home)
