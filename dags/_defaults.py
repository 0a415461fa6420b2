"""Arguments that every DAG has: its name, parameters, limits and retries, and who hears of its failure.

cron --> ingest --raw--> rollups --rollup--> quality --checked--> publish --serving--> readers
                     `-> queries --results---------------------------^
cron --> repair --results--^       maintain
while `tidemark serve` does these: watch --rollup--> quality, every five minutes
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from dags._params import STREAMS, config

if TYPE_CHECKING:
    from lakehouse.config.airflow.homes import AirflowHome

# Runs of several streams, so that a slow stream holds no other back; each stream has one task of a kind at a time.
SEVERAL = {"max_active_runs": 16}
# What has landed is published before more of it is read.
_FIRST = {"publish": 4, "quality": 3, "rollups": 2, "queries": 2}


def dag_defaults(
    home: AirflowHome, job: str, of: str, more: dict[str, Param] | None = None
) -> dict[str, Any]:
    """Return the arguments of ``DAG`` for a job of a home, with ``more`` parameters of its own.

    A task that returns figures has ``multiple_outputs=False``, because Airflow would store each figure a second time.
    No start date and no catching up: a run does everything that waits, so the first one is that of the next time.
    """
    own = home.settings
    return {
        "dag_id": f"{own.prefix}_{job}",
        "dag_display_name": f"{own.prefix}: {job}",
        "tags": [own.prefix, of],
        "catchup": False,
        "max_active_runs": 1,
        "dagrun_timeout": own.run_timeout,
        "on_failure_callback": post_failure,
        "default_args": {
            "owner": own.owner,
            "pool": own.pool,
            "priority_weight": _FIRST.get(job, 1),
            "weight_rule": "absolute",
            "retries": own.retries,
            "retry_delay": timedelta(minutes=1),
            "retry_exponential_backoff": 2.0,
            "max_retry_delay": timedelta(minutes=30),
            "execution_timeout": own.task_timeout,
        },
        "params": STREAMS | config(home.config) | (more or {}),
    }


def post_failure(context: Any) -> None:
    """Post that a run has failed to the address of ``[alerts]``, once for each run."""
    from dags._secrets import take_secrets
    from jobs.running.failed_run import post_failed_run

    run = context.get("dag_run")
    began = getattr(run, "start_date", None) or getattr(run, "run_after", None)
    dag, task = context["dag"], getattr(context.get("ti"), "task_id", None)
    take_secrets(dag.params)
    post_failed_run(dict(dag.params), dag.dag_id, context["run_id"], str(context.get("reason")), task, began)
