"""The pods that Airflow makes of the DAGs' tasks by the chart's template; check.sh holds them to Kubernetes' schemas.

python -m tests.dags.pods
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "tests" / "infra" / "kubernetes-pods.yaml"
PARAMS = {"streams": "all", "queries": "all", "config": None, "from": None, "to": None}


def template(folder: Path) -> Path:
    """Write the template of the chart as it was rendered last; return its file."""
    from tests.infra.pod_templates import pod_templates

    file = folder / "task.yaml"
    file.write_text(yaml.safe_dump(pod_templates(CHART)["task.yaml"]))
    return file


def one_of_each(folder: Path) -> Path:
    """Write a configuration with a stream and a query, each named ``one``; return its file."""
    (folder / "queries").mkdir()
    (folder / "queries" / "one.sql").touch()
    (folder / "tidemark.toml").write_text('[streams.one]\nsource.path = "landing/*"\n')
    return folder / "tidemark.toml"


def pods() -> dict[str, dict[str, Any]]:
    """Return the pod of each task that reads or writes the home, by DAG and task."""
    from dags._pods import PodTask
    from jobs.run_dags import ORDER, WATCHING
    from lakehouse.config.airflow.homes import airflow_homes

    found = {}
    for name in (*ORDER, *WATCHING):
        for task in getattr(import_module(f"dags.{name}"), name)(*airflow_homes()).tasks:
            if task.task_type == PodTask.__name__:
                found[f"{name}.{task.task_id}"] = _pod(task)
    return found


def _pod(task: Any) -> dict[str, Any]:
    from kubernetes.client import ApiClient

    task.arguments, task.random_name_suffix = task.words({"params": PARAMS}), False
    pod: dict[str, Any] = ApiClient().sanitize_for_serialization(
        task.build_pod_request_obj(None, dry_run=True)
    )
    return pod


def main() -> int:
    """Print the pods."""
    # What Airflow says goes elsewhere.
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(sys.stderr):
        os.environ |= {"AIRFLOW_HOME": folder, "TIDEMARK_POD_TEMPLATE": str(template(Path(folder)))}
        os.environ["TIDEMARK_CONFIG"] = str(one_of_each(Path(folder)))
        found = list(pods().values())
    print(yaml.safe_dump_all(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
