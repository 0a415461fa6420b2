"""One DAG, run by itself in this process."""

from __future__ import annotations

from importlib import import_module

from lakehouse.declare.settings import Settings


def dag_run(name: str, settings: Settings) -> dict[str, str]:
    """Run a DAG by itself; return the state of each of its tasks, and of the whole under no name."""
    from infra.airflow_home import airflow_environment

    with airflow_environment(settings):
        dag = getattr(import_module(f"dags.{name}"), name)()
        for task in dag.tasks:
            task.retries = 0
        ended = dag.test(run_conf={})
    return {each.task_id: str(each.state) for each in ended.get_task_instances()} | {"": str(ended.state)}
