"""A driver that asks Kubernetes for executors, with the chart's template and the rights of the chart's service account.

Real: the API server, the driver, the executors and what starts them. Not real: the node, which mounts and confines
nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cluster.isolated import bare_python
from tests.cluster.kubernetes import NAMESPACE, ROOT, Api, api_server, is_there, node
from tests.cluster.life import begin, content, lead
from tests.infra.pod_templates import pod_templates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("kubernetes", reason="the extra kubernetes is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not is_there(), reason="no API server of Kubernetes: infra/kubernetes/api_server.sh builds one"
    ),
]
RENDERED = ROOT / "tests" / "infra"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with api_server(tmp_path_factory.mktemp("kubernetes") / "api") as started:
        yield started


@pytest.mark.parametrize("rendered", ["kubernetes", "kubernetes-pods"])
def test_the_server_takes_the_whole_chart(api: Api, rendered: str) -> None:
    from kubernetes.utils import create_from_dict

    for each in yaml.safe_load_all((RENDERED / f"{rendered}.yaml").read_text()):
        each["metadata"]["name"] = f"{rendered}-{each['metadata']['name']}"
        create_from_dict(api.client(), each, namespace=NAMESPACE, dry_run="All")


def test_the_server_takes_the_pod_of_each_task_though_it_refuses_pods_with_privileges(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("airflow.providers.cncf.kubernetes", reason="the extra kubernetes is not installed")
    from kubernetes.client import ApiException, CoreV1Api

    from tests.dags.pods import pods, template

    core = CoreV1Api(api.client())
    core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "lake-driver"}}, dry_run=None)
    monkeypatch.setenv("TIDEMARK_POD_TEMPLATE", str(template(tmp_path)))

    asked_for = pods()
    for pod in asked_for.values():
        core.create_namespaced_pod(NAMESPACE, pod, dry_run="All")

    pod["spec"]["containers"][1]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(ApiException, match="allowPrivilegeEscalation"):
        core.create_namespaced_pod(NAMESPACE, pod, dry_run="All")
    core.delete_namespaced_service_account("lake-driver", NAMESPACE)


def test_a_task_finds_the_pod_that_it_had_started_before_its_worker_died(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("airflow.providers.cncf.kubernetes", reason="the extra kubernetes is not installed")
    from kubernetes.client import CoreV1Api

    from lakehouse.config.airflow.homes import airflow_home
    from tests.dags.pods import PARAMS, one_of_each, template

    config = one_of_each(tmp_path)
    monkeypatch.setenv("TIDEMARK_CONFIG", str(config))
    from dags.ingest import ingest

    core = CoreV1Api(api.client())
    core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "lake-driver"}})
    known = {
        "conn_type": "kubernetes",
        "extra": {"kube_config_path": str(api.credentials()), "in_cluster": False},
    }
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(known))
    monkeypatch.setenv("TIDEMARK_POD_TEMPLATE", str(template(tmp_path)))

    def started(map_index: int, try_number: int) -> str:
        """Return the pod of a task, as a worker asks for it that knows nothing of those before it."""
        task: Any = ingest(airflow_home(config)).get_task("take.one")
        run = SimpleNamespace(
            dag_id="tidemark_ingest", task_id="take.one", map_index=map_index, try_number=try_number
        )
        context: Any = {"ti": run, "run_id": "one", "dag": task.dag, "params": PARAMS}
        task.arguments = task.words(context)
        found = task.get_or_create_pod(task.build_pod_request_obj(context), context)
        return str(found.metadata.name)

    first = started(0, 1)

    assert started(0, 1) == started(0, 2) == first
    assert started(1, 1) != first
    assert {pod.metadata.name for pod in core.list_namespaced_pod(NAMESPACE).items} == {first, started(1, 2)}
    core.delete_collection_namespaced_pod(NAMESPACE)
    core.delete_namespaced_service_account("lake-driver", NAMESPACE)


@pytest.mark.long
@pytest.mark.spark
def test_two_executors_that_kubernetes_was_asked_for_come_to_what_one_process_comes_to(
    api: Api, spark: SparkSession, tmp_path: Path
) -> None:
    from kubernetes.client import CoreV1Api
    from kubernetes.utils import create_from_dict

    for each in yaml.safe_load_all((RENDERED / "kubernetes-pods.yaml").read_text()):
        if each["kind"] in ("ServiceAccount", "Role", "RoleBinding"):
            create_from_dict(api.client(), each, namespace=NAMESPACE)
    core = CoreV1Api(api.client())
    driver = pod_templates(RENDERED / "kubernetes-pods.yaml")["task.yaml"]
    driver["metadata"]["name"] = "driver"
    owner = core.create_namespaced_pod(NAMESPACE, driver).metadata.uid
    is_ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    core.patch_namespaced_pod_status("driver", NAMESPACE, {"status": is_ready})
    python = bare_python(tmp_path / "venv")
    # What a node's image has.
    environment = {"PATH": f"{python}:{os.environ['PATH']}", "HOME": str(tmp_path)}

    with node(api, tmp_path / "node", environment) as running:
        there = _led(tmp_path / "there", _options(api, tmp_path, python))
    here = begin(tmp_path / "here", ("selection",))
    lead(spark, here, 80, (0,))

    assert there["content"] == content(here)
    assert there["cores"] == 2
    assert len(running.pods) == 2
    for pod in running.pods.values():
        assert [each["uid"] for each in pod["metadata"]["ownerReferences"]] == [owner]
        assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "tidemark"
    # A driver that ends leaves nothing, and was refused nothing.
    assert "forbidden" not in (tmp_path / "there" / "log").read_text()
    assert core.list_namespaced_pod(NAMESPACE, label_selector="spark-role=executor").items == []
    assert core.list_namespaced_config_map(NAMESPACE, label_selector="spark-app-selector").items == []


def _options(api: Api, folder: Path, python: Path) -> dict[str, str]:
    """Return what the chart tells a driver, with this machine's addresses and paths."""
    told = pod_templates(RENDERED / "kubernetes-pods.yaml")["task.yaml"]["spec"]["containers"][0]["env"]
    options = json.loads(next(each["value"] for each in told if each["name"] == "TIDEMARK_SPARK__OPTIONS"))
    template = folder / "executor.yaml"
    template.write_text(yaml.safe_dump(pod_templates(RENDERED / "kubernetes-pods.yaml")["executor.yaml"]))
    options |= {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.port": "0",
        "spark.driver.blockManager.port": "0",
        "spark.blockManager.port": "0",
        "spark.executor.instances": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.kubernetes.driver.pod.name": "driver",
        "spark.kubernetes.executor.podTemplateFile": str(template),
        "spark.kubernetes.authenticate.caCertFile": str(api.certificate),
        "spark.kubernetes.authenticate.oauthTokenFile": str(api.token_of("lake-driver")),
        "spark.pyspark.python": str(python / "python3"),
        # Executors start beside each other here.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }
    return {"TIDEMARK_SPARK__MASTER": f"k8s://{api.url}", "TIDEMARK_SPARK__OPTIONS": json.dumps(options)}


def _led(folder: Path, told: dict[str, str]) -> dict[str, Any]:
    """Lead a small life in a driver of its own; return what came of it."""
    folder.mkdir()
    command = [
        sys.executable,
        "-m",
        "tests.cluster.life",
        str(folder),
        "--kinds",
        "selection",
        "--parts",
        "0",
    ]
    with (folder / "log").open("w") as log:
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **told},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=500,
        )
    assert ended.returncode == 0, (folder / "log").read_text()[-4000:]
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found
