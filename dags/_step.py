"""The one place that decides what a task is, and how it fails: in the worker's process, or in a pod of its own.

An error that stays until somebody changes something (``Permanent``) fails the task at once: retrying it would hold the
next run back. Its message is the first and the last line that the task logs.
"""

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
    logging_errors = {"on_failure_callback": log_failure, "on_retry_callback": log_failure}
    if template := os.environ.get("TIDEMARK_POD_TEMPLATE"):
        from dags._pods import pod_task

        made = pod_task(template, logging_errors | options)
    else:
        made = task(**(logging_errors | options))
    return lambda function: made(failing_at_once(function))


def failing_at_once(function: Function) -> Function:
    """Return the function of a task which Airflow does not retry after a permanent error."""

    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        from airflow.sdk.exceptions import AirflowFailException

        from dags._secrets import take_secrets
        from jobs.running.scheduled import Permanent, error_text

        try:
            take_secrets(named.get("params"))
            return function(*arguments, **named)
        except Permanent as error:
            log.error("%s", error_text(error))
            raise AirflowFailException(error_text(error)) from None

    return called


def log_failure(context: Any) -> None:
    """Log the error of a task that has failed, after all that Airflow logs about it."""
    log.error("%s", context["exception"])
