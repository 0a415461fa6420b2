"""The one place that decides what a task is, and how it fails: in the worker's process, or in a pod of its own.

An error that stays until somebody changes something (``Permanent``) fails the task at once: retrying it would hold the
next run back. Its message is the first and the last line that the task logs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import wraps
from typing import Any

from airflow.sdk import task

log = logging.getLogger(__name__)
Function = Callable[..., Any]


def step(**options: Any) -> Callable[[Function], Any]:
    """Return the decorator of tasks: ``@task``, or one for pods if TIDEMARK_POD_TEMPLATE names the file of a pod."""
    made: Callable[[Function], Any]
    if template := os.environ.get("TIDEMARK_POD_TEMPLATE"):
        from dags._pods import pod_task

        made = pod_task(template, options)
    else:
        made = task(on_failure_callback=log_failure, **options)
    return lambda function: made(failing_at_once(function))


def failing_at_once(function: Function) -> Function:
    """Return the function of a task which Airflow does not retry after a permanent error."""

    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        from airflow.sdk.exceptions import AirflowFailException

        from jobs.running.scheduled import Permanent, error_text

        try:
            return function(*arguments, **named)
        except Permanent as error:
            log.error("%s", error_text(error))
            raise AirflowFailException(error_text(error)) from None

    return called


def log_failure(context: Any) -> None:
    """Log the error of a task that has failed for good, after all that Airflow logs about it."""
    log.error("%s", context["exception"])


def fail_run_of(mapped: Any) -> None:
    """Fail the run of a DAG if one of the mapped tasks has failed after its retries.

    The state of a run is that of its last tasks, and one that goes on with those that succeeded hides the others.
    """

    @task(trigger_rule="one_failed", retries=0)
    def report_failures() -> None:
        from airflow.sdk.exceptions import AirflowFailException

        raise AirflowFailException(f"{mapped.operator.task_id} has failed: see the logs of its red tasks")

    mapped >> report_failures()
