"""A task as a pod of its own: the same function of the same file, which ``jobs/run_task.py`` calls there.

The Airflow that runs tasks needs the extra ``kubernetes`` for this, and nothing of the home.
"""

import json
from collections.abc import Callable
from typing import Any

from airflow.providers.cncf.kubernetes.utils.xcom_sidecar import PodDefaults
from airflow.sdk.bases.decorator import DecoratedOperator, determine_kwargs, task_decorator_factory

from dags._pod_failure import PERMANENT, SKIPPED, PodOperator

RESULT = f"{PodDefaults.XCOM_MOUNT_PATH}/return.json"
# A node may have to download an image of three gigabytes first.
START_S = 900


class PodTask(DecoratedOperator, PodOperator):
    """A function that a pod calls: its arguments are words of the pod's command, its result is a file there."""

    custom_operator_name = "@step"
    # The command consists of arguments that are already rendered.
    template_fields = (
        *DecoratedOperator.template_fields,
        *(name for name in PodOperator.template_fields if name not in ("cmds", "arguments")),
    )

    def __init__(self, *, python_callable: Callable[..., Any], **options: Any) -> None:
        ours: dict[str, Any] = {
            "name": f"tidemark-{python_callable.__name__}".replace("_", "-"),
            "cmds": ["python", "-m", "jobs.run_task"],
            "do_xcom_push": True,
            "skip_on_exit_code": SKIPPED,
            "startup_timeout_seconds": START_S,
        }
        super().__init__(python_callable=python_callable, **(ours | options))

    def execute(self, context: Any) -> Any:
        """Start the pod, or find the one that an earlier process started; return the result of its function."""
        self.arguments = self.words(context)
        return super().execute(context)

    def words(self, context: Any) -> list[str]:
        """Return the words of the pod's command."""
        asked = dict(determine_kwargs(self.python_callable, (), {**context, **self.op_kwargs}))
        if "params" in asked:
            asked["params"] = dict(asked["params"])
        codes = ("--skipped", str(SKIPPED), "--permanent", str(PERMANENT))
        return [self.dag_id, self.task_id, "--arguments", json.dumps(asked), "--result", RESULT, *codes]

    def build_pod_request_obj(self, context: Any = None, **options: Any) -> Any:
        """Return the pod; its sidecar, which passes the result on, is the same image with as few rights."""
        pod = super().build_pod_request_obj(context, **options)
        task, *others = pod.spec.containers
        for other in others:
            other.image, other.image_pull_policy = task.image, task.image_pull_policy
            other.security_context = task.security_context
        return pod


def pod_task(template: str, options: dict[str, Any]) -> Any:
    """Return a decorator that turns functions into pods, each as the file ``template`` says."""
    return task_decorator_factory(decorated_operator_class=PodTask, pod_template_file=template, **options)
