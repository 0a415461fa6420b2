"""The chart as it was rendered last: what every pod is, and what may reach it.

``infra/kubernetes/check.sh`` renders it and holds it to Kubernetes' own schemas, as does ``make test-long``.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.kubernetes.schemas import write_schemas
from lakehouse.settings import Settings, load_settings
from tests.infra.pod_templates import pod_templates

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "infra" / "kubernetes"
Object = dict[str, Any]
RENDERED = ROOT / "tests" / "infra"
FOUND: list[Object] = list(yaml.safe_load_all((RENDERED / "kubernetes.yaml").read_text()))
# With executors of Spark and tasks of Airflow as pods.
WITH_PODS: list[Object] = list(yaml.safe_load_all((RENDERED / "kubernetes-pods.yaml").read_text()))
# With a server of Spark Connect that Airflow's tasks share.
WITH_CONNECT: list[Object] = list(yaml.safe_load_all((RENDERED / "kubernetes-connect.yaml").read_text()))


def _of(kind: str, found: list[Object] = FOUND) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in found if each["kind"] == kind}


def _pods() -> Iterator[tuple[str, Object]]:
    """Return the template of each pod, by the name of what makes it."""
    for each in FOUND:
        spec = each.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template:
            yield each["metadata"]["name"], template


PODS = dict(_pods())


def test_each_part_is_there() -> None:
    assert set(PODS) == {
        *("lake-serve", "lake-web", "lake-bridge-lora"),
        *("lake-repair", "lake-quality", "lake-maintain", "lake-maintain-queries"),
    }


@pytest.mark.parametrize("name", PODS)
def test_a_pod_is_a_user_without_rights_on_a_file_system_that_cannot_be_written(name: str) -> None:
    spec = PODS[name]["spec"]

    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 10001
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert all(set(volume) & {"persistentVolumeClaim", "configMap", "emptyDir"} for volume in spec["volumes"])
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in container["resources"]["limits"]
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}


@pytest.mark.parametrize("name", PODS)
def test_a_pod_has_the_shared_home_and_writable_scratch_and_secrets_by_their_name_alone(name: str) -> None:
    spec = PODS[name]["spec"]
    (container,) = spec["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    mounted = {each["mountPath"] for each in container["volumeMounts"]}

    assert {"lake", "config", "scratch"} == {volume["name"] for volume in spec["volumes"]}
    assert variables["HOME"] == variables["TMPDIR"] == "/scratch" in mounted
    assert str(variables["TIDEMARK_HOME"]).startswith("/lake/") and "/lake" in mounted
    assert container["envFrom"] == [{"secretRef": {"name": "tidemark-secrets"}}]
    assert not [each for each in variables if re.search("SECRET|PASSWORD|API_KEY", each)]
    assert "Secret" not in {each["kind"] for each in FOUND}


def test_what_runs_without_pause_is_probed_and_what_writes_runs_once() -> None:
    for name in ("lake-serve", "lake-web", "lake-bridge-lora"):
        assert "livenessProbe" in PODS[name]["spec"]["containers"][0], name
    for name in ("lake-serve", "lake-bridge-lora"):
        spec = _of("Deployment")[name]["spec"]
        assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    for job in _of("CronJob").values():
        assert job["spec"]["concurrencyPolicy"] == "Forbid"
    assert _of("PodDisruptionBudget")["lake-web"]["spec"]["maxUnavailable"] == 1


def test_a_selector_finds_its_own_pods_and_no_others() -> None:
    for each in [*_of("Deployment").values(), *_of("Service").values(), *_of("PodDisruptionBudget").values()]:
        chosen = each["spec"]["selector"]
        wanted = chosen.get("matchLabels", chosen).items()
        found = [name for name, pod in PODS.items() if wanted <= pod["metadata"]["labels"].items()]
        assert len(found) == 1, each["metadata"]["name"]


def test_nothing_reaches_a_pod_but_by_a_rule() -> None:
    policies = _of("NetworkPolicy")
    every, asked = policies["lake-network"]["spec"], policies["lake-network-web"]["spec"]

    assert every["policyTypes"] == ["Ingress", "Egress"]
    assert all(
        every["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        for pod in PODS.values()
    )
    assert [rule["ports"] for rule in asked["ingress"]] == [[{"protocol": "TCP", "port": 8417}]]
    # Workers of Spark come back to the ports that the session is told to take.
    assert [port["port"] for rule in every["ingress"] for port in rule["ports"]] == [7078, 7079]


def test_commands_are_those_of_the_project() -> None:
    modules = {pod["spec"]["containers"][0].get("command", ["", "", ""])[2] for pod in PODS.values()} - {""}

    assert modules == {"jobs.repair_late", "jobs.check_quality", "jobs.maintain", "jobs.maintain_queries"}
    for module in modules:
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file()


def test_pods_read_the_settings_that_the_chart_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, text in _of("ConfigMap")["lake-config"]["data"].items():
        place = tmp_path / (key if key.endswith(".toml") else f"queries/{key}")
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    for variable in PODS["lake-serve"]["spec"]["containers"][0]["env"]:
        if variable["name"].startswith("TIDEMARK_SPARK__"):
            monkeypatch.setenv(variable["name"], variable["value"].replace("$(POD_IP)", "10.0.0.7"))

    settings: Settings = load_settings(tmp_path / "tidemark.toml")

    assert (set(settings.streams), set(settings.registered)) == ({"telemetry"}, {"warm"})
    assert settings.spark.addresses() == [("spark-master.spark", 7077)]
    assert settings.spark.options["spark.driver.host"] == "10.0.0.7"
    assert settings.spark.options["spark.executor.memory"] == "4g"


def test_what_starts_spark_may_ask_for_executors_and_nothing_else_of_the_api() -> None:
    (role,) = _of("Role", WITH_PODS).values()
    templates = pod_templates(RENDERED / "kubernetes-pods.yaml")
    serve = _of("Deployment", WITH_PODS)["lake-serve"]["spec"]["template"]["spec"]

    assert {kind for rule in role["rules"] for kind in rule["resources"]} == {
        *("pods", "configmaps", "persistentvolumeclaims", "services"),
    }
    assert not {"*", "secrets"} & {
        word for rule in role["rules"] for words in rule.values() for word in words
    }
    for spec in (serve, templates["task.yaml"]["spec"]):
        assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("lake-driver", True)
    assert templates["executor.yaml"]["spec"]["automountServiceAccountToken"] is False
    assert not {"ServiceAccount", "Role"} & {each["kind"] for each in FOUND}


def test_tasks_are_clients_of_the_one_pod_that_starts_spark() -> None:
    server = _of("Deployment", WITH_CONNECT)["lake-connect"]["spec"]["template"]
    task = pod_templates(RENDERED / "kubernetes-connect.yaml")["task.yaml"]
    reached = _of("NetworkPolicy", WITH_CONNECT)["lake-network-connect"]["spec"]
    (service,) = _of("Service", WITH_CONNECT).values()

    def master(pod: Object) -> Any:
        (container,) = pod["spec"]["containers"]
        return next(each["value"] for each in container["env"] if each["name"] == "TIDEMARK_SPARK__MASTER")

    assert master(server) == "spark://spark-master.spark:7077"
    assert master(task) == f"sc://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert "spark.driver.host" not in str(task) and "spark.driver.host" in str(server)
    assert service["spec"]["selector"].items() <= server["metadata"]["labels"].items()
    assert server["spec"]["containers"][0]["args"] == ["spark", "--connect", "--host", "0.0.0.0"]
    assert [[port["port"] for port in rule["ports"]] for rule in reached["ingress"]] == [[15002]]
    assert reached["ingress"][0]["from"][1:] == [
        {"podSelector": {"matchLabels": {"release": "airflow", "component": "scheduler"}}}
    ]


def test_an_executor_s_pod_is_as_confined_as_the_others_and_sees_the_home() -> None:
    spec = pod_templates(RENDERED / "kubernetes-pods.yaml")["executor.yaml"]["spec"]
    (container,) = spec["containers"]

    assert spec["securityContext"] == PODS["lake-serve"]["spec"]["securityContext"]
    assert container["securityContext"] == PODS["lake-serve"]["spec"]["containers"][0]["securityContext"]
    assert {each["mountPath"] for each in container["volumeMounts"]} == {"/lake", "/scratch"}
    assert container["workingDir"] == "/scratch"


def test_an_executor_s_command_is_in_the_image_and_starts_spark_s_own_class_with_what_it_was_told(
    tmp_path: Path,
) -> None:
    template = pod_templates(RENDERED / "kubernetes-pods.yaml")["executor.yaml"]
    init, *_, script = template["spec"]["containers"][0]["command"]
    image = (ROOT / "infra" / "Containerfile").read_text()
    assert f" {init} " in image and "COPY infra infra" in image and "WORKDIR /opt/tidemark" in image
    (tmp_path / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "java").chmod(0o755)
    told = {
        "PATH": f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin",
        **{"SPARK_JAVA_OPT_0": "-Da=b c", "SPARK_JAVA_OPT_1": "-Dd=e", "SPARK_JAVA_OPT_3": "-Dnot"},
        **{"SPARK_EXECUTOR_MEMORY": "512m", "SPARK_DRIVER_URL": "spark://x@h:1", "SPARK_EXECUTOR_ID": "7"},
        **{"SPARK_EXECUTOR_CORES": "2", "SPARK_APPLICATION_ID": "app", "SPARK_EXECUTOR_POD_IP": "10.0.0.7"},
        **{"SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_EXECUTOR_POD_NAME": "pod", "SPARK_CONF_DIR": "/conf"},
    }
    command = [script.replace("/opt/tidemark", str(ROOT)), "executor"]

    words = subprocess.run(command, env=told, capture_output=True, text=True, check=True).stdout.splitlines()

    assert words[:5] == ["-Da=b c", "-Dd=e", "-Xms512m", "-Xmx512m", "-cp"]
    assert words[5].startswith("/conf:") and words[5].endswith("/pyspark/jars/*")
    assert words[6] == "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    pairs = dict(zip(words[7::2], words[8::2], strict=True))
    assert (pairs["--driver-url"], pairs["--hostname"], pairs["--cores"]) == (
        "spark://x@h:1",
        "10.0.0.7",
        "2",
    )
    refused = subprocess.run([command[0], "driver"], env=told, capture_output=True, text=True)
    assert (refused.returncode, "got driver" in refused.stderr) == (2, True)


@pytest.mark.parametrize("name", ["airflow.yaml", "airflow-logs.yaml"])
def test_airflow_knows_every_option_that_its_values_set(name: str) -> None:
    found = importlib.util.find_spec("airflow")
    assert found is not None and found.origin is not None
    known = yaml.safe_load((Path(found.origin).parent / "config_templates" / "config.yml").read_text())
    values = yaml.safe_load((FOLDER / name).read_text())["config"]

    assert {section: set(told) - set(known[section]["options"]) for section, told in values.items()} == {
        section: set() for section in values
    }


def test_the_chart_has_the_versions_of_the_project_and_of_its_airflow() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((FOLDER / "tidemark" / "Chart.yaml").read_text())
    airflow = yaml.safe_load((FOLDER / "airflow.yaml").read_text())

    assert chart["appVersion"] == project["version"]
    assert f"apache-airflow=={airflow['airflowVersion']}" in project["dependencies"]
    assert airflow["executor"] == "LocalExecutor"


def test_schemas_allow_what_the_api_names_and_nothing_else(tmp_path: Path) -> None:
    swagger = tmp_path / "swagger.json"
    swagger.write_text(
        '{"definitions": {"io.Pod": {"properties": {"spec": {"type": "object"}}, "x-kubernetes-group-version-kind": '
        '[{"group": "apps.example.io", "kind": "Pod", "version": "v1"}]}, "io.Text": {"type": "string"}}}'
    )

    assert write_schemas(swagger, tmp_path / "out") == 1
    assert "#/definitions/io.Pod" in (tmp_path / "out" / "pod-apps-v1.json").read_text()
    assert '"additionalProperties": false' in (tmp_path / "out" / "definitions.json").read_text()


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_chart_renders_to_this_and_to_kinds_that_kubernetes_knows() -> None:
    if not shutil.which("go"):
        pytest.skip("no Go, which builds helm and kubeconform")
    checked = subprocess.run([FOLDER / "check.sh"], capture_output=True, text=True)

    assert checked.returncode == 0, checked.stdout + checked.stderr
