"""One DAG, run by itself in this process."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from lakehouse.settings import Settings


def dag_run(name: str, settings: Settings, retries: int = 0, **asked: str) -> dict[str, str]:
    """Run a DAG by itself; return the state of each of its tasks, and of the whole under no name.

    ``asked``: parameters of the DAG. A task is tried once, and after an error up to ``retries`` times more.
    """
    from infra.airflow_home import airflow_environment
    from lakehouse.config.airflow.homes import airflow_home

    with airflow_environment(settings):
        dag = getattr(import_module(f"dags.{name}"), name)(airflow_home(Path(str(settings.config))))
        for task in dag.tasks:
            task.retries = retries
        ended = dag.test(run_conf=asked)
    return {each.task_id: str(each.state) for each in ended.get_task_instances()} | {"": str(ended.state)}
