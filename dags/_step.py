"""The one place that says what a task is: a function in the worker's process, or a pod of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from airflow.sdk import task


def step(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return what makes a task of a function: ``@task``, or a pod where TIDEMARK_POD_TEMPLATE names the file of one."""
    made: Callable[[Callable[..., Any]], Any]
    if not (template := os.environ.get("TIDEMARK_POD_TEMPLATE")):
        made = task(**options)
        return made
    from dags._pods import pod_task

    made = pod_task(template, options)
    return made
