"""The one place that decides what a task is: a function in the worker's process, or a pod of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from airflow.sdk import task


def step(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator of tasks: ``@task``, or one for pods if TIDEMARK_POD_TEMPLATE names the file of a pod."""
    made: Callable[[Callable[..., Any]], Any]
    if not (template := os.environ.get("TIDEMARK_POD_TEMPLATE")):
        made = task(**options)
        return made
    from dags._pods import pod_task

    made = pod_task(template, options)
    return made
