"""Tasks as pods: Airflow asks for each by its command, and the command does what the task does in the worker's process.

There is no cluster: where a node would start the command of a pod, a process of this machine does.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from jobs import run_dags, run_task
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.control.lease import lease
from tests.dags.one_dag import dag_run
from tests.dags.pods import PARAMS, ROOT, one_of_each, pods, template
from tests.support.heartbeats import served
from tests.support.readings import declared
from tests.support.table_rows import table_rows

pytest.importorskip("airflow.providers.cncf.kubernetes", reason="the extra kubernetes is not installed")
pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(600)]
OF_HOME = {
    "ingest": {"choose", "take.one"},
    "rollups": {"choose", "build.one"},
    "queries": {"choose", "join.one"},
    "repair": {"choose", "complete.one", "judge.one"},
    "quality": {"choose", "check.one"},
    "publish": {"release"},
    "maintain": {"choose", "choose_queries", "compact_and_vacuum.one", "merge.one", "tend_query.one"},
    "watch": {"look"},
}
ASKED = {name: PARAMS[name] for name in ("streams", "config")}


@pytest.fixture(scope="module")
def asked_for(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEMARK_POD_TEMPLATE", str(template(tmp_path_factory.mktemp("pods"))))
        patch.setenv("TIDEMARK_CONFIG", str(one_of_each(tmp_path_factory.mktemp("config"))))
        yield pods()


def _home(folder: Path) -> Settings:
    """Return a home with rows that have landed, repeats and one that cannot be read among them."""
    (folder / "landing").mkdir(parents=True)
    (folder / "tidemark.toml").write_text(declared())
    rows = [
        {"ts": 1_600_000_000 + n % 7, "device": "ab"[n % 2], "temp": n / 2, "count": n} for n in range(20)
    ]
    lines = [*map(json.dumps, rows), "{"]
    (folder / "landing" / "a.ndjson").write_text("\n".join(lines))
    return load_settings(folder / "tidemark.toml")


def _tables(settings: Settings) -> dict[str, list[tuple[Any, ...]]]:
    layout = settings.layout
    return {
        "raw": sorted(table_rows(layout.raw("readings"), "event_us", "device", "temp", "count")),
        "quarantine": sorted(table_rows(layout.quarantine("readings"), "reason", "record")),
        "ledger": table_rows(layout.ledger("readings"), "count(*)", "sum(accepted)", "sum(quarantined)"),
    }


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """Let a process of this machine run the command of each pod that Airflow asks for; return these pods."""
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
    from airflow.sdk.exceptions import AirflowException, AirflowSkipException
    from kubernetes.client import ApiClient

    from dags._pod_failure import SKIPPED
    from dags._pods import RESULT

    found: list[dict[str, Any]] = []

    def run(operator: Any, context: Any) -> Any:
        pod = operator.build_pod_request_obj(context, dry_run=True)
        found.append(ApiClient().sanitize_for_serialization(pod))
        result = tmp_path / f"pod-{len(found)}.json"
        first, *command = found[-1]["spec"]["containers"][0]["command"]
        assert first == "python"
        words = [
            str(result) if word == RESULT else word for word in found[-1]["spec"]["containers"][0]["args"]
        ]
        own = {name: value for name, value in os.environ.items() if name != "TIDEMARK_POD_TEMPLATE"}
        ended = subprocess.run(
            [sys.executable, *command, *words], cwd=ROOT, env=own, capture_output=True, text=True
        )
        if ended.returncode == SKIPPED:
            raise AirflowSkipException(ended.stdout)
        if ended.returncode:
            raise AirflowException(ended.stderr)
        return json.loads(result.read_text())

    monkeypatch.setattr(KubernetesPodOperator, "execute", run)
    monkeypatch.setenv("TIDEMARK_POD_TEMPLATE", str(template(tmp_path)))
    return found


def test_each_task_that_reads_or_writes_the_home_is_a_pod(asked_for: dict[str, dict[str, Any]]) -> None:
    assert set(asked_for) == {f"{dag}.{task}" for dag, tasks in OF_HOME.items() for task in tasks}
    assert set(OF_HOME) == {*run_dags.ORDER, *run_dags.WATCHING}


def test_a_task_s_pod_is_a_user_without_rights_and_so_is_what_hands_its_answer_on(
    asked_for: dict[str, dict[str, Any]],
) -> None:
    for name, pod in asked_for.items():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["restartPolicy"] == "Never"
        task, beside = spec["containers"]
        for container in (task, beside):
            assert container["image"] == "tidemark:0.1.0"
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert task["envFrom"] == [{"secretRef": {"name": "tidemark-secrets"}}]
        assert "memory" in task["resources"]["limits"]
        assert {"/lake", "/scratch", "/airflow/xcom"} <= {each["mountPath"] for each in task["volumeMounts"]}


def test_every_pod_s_command_finds_the_function_of_its_task(asked_for: dict[str, dict[str, Any]]) -> None:
    for name, pod in asked_for.items():
        dag, task, _, arguments, *_ = pod["spec"]["containers"][0]["args"]
        function = run_task.function_of(dag, task)
        assert function.__name__ == name.split(".")[1]
        assert set(json.loads(arguments)) <= set(signature(function).parameters)


def test_pods_of_a_dag_make_the_tables_that_it_makes_in_its_own_process(
    tmp_path: Path, started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = _home(tmp_path / "here"), _home(tmp_path / "there")

    states = dag_run("ingest", there)
    monkeypatch.delenv("TIDEMARK_POD_TEMPLATE")

    succeeded = dict.fromkeys(("choose", "take.readings", ""), "success")
    assert states == dag_run("ingest", here) == succeeded
    assert _tables(here) == _tables(there)
    assert len(_tables(there)["quarantine"]) > 1
    assert [pod["spec"]["containers"][0]["args"][:2] for pod in started] == [
        ["tidemark_ingest", "choose"],
        ["tidemark_ingest", "take.readings"],
    ]
    labels = started[1]["metadata"]["labels"]
    assert (labels["dag_id"], labels["task_id"]) == ("tidemark_ingest", "take.readings")
    assert labels["app.kubernetes.io/name"] == "tidemark"


@pytest.mark.spark
def test_a_pod_that_was_killed_is_run_again_and_the_tables_are_as_if_it_had_not_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, killed = _home(tmp_path / "whole"), _home(tmp_path / "killed")
    words = ["ingest", "take.readings", "--arguments", json.dumps({"stream": "readings", "params": ASKED})]
    result = tmp_path / "return.json"
    told = os.environ | {"TIDEMARK_CONFIG": str(killed.config), "TIDEMARK_CRASH_AT": "ingest.raw-appended"}
    told["TIDEMARK_ENGINE__RUNNER"] = "spark"
    command = [sys.executable, "-m", "jobs.run_task", *words, "--result", str(result)]

    ended = subprocess.run(command, cwd=ROOT, env=told, capture_output=True, text=True)

    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert not result.exists()
    # Airflow shows as errors what comes on stderr, and a JVM says there that all is well.
    assert "WARN" in ended.stdout
    assert "WARN" not in ended.stderr
    for settings in (killed, whole):
        monkeypatch.setenv("TIDEMARK_CONFIG", str(settings.config))
        assert run_task.main([*words, "--result", str(result)]) == 0
    assert _tables(killed) == _tables(whole)
    assert json.loads(result.read_text())["accepted"] == len(_tables(whole)["raw"])


def test_what_a_service_does_is_skipped_and_what_fails_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = _home(tmp_path)
    monkeypatch.setenv("TIDEMARK_CONFIG", str(settings.config))
    words = ["--arguments", json.dumps({"params": ASKED}), "--skipped", "99"]

    with lease(settings.layout, settings.layout.service):
        served(settings.layout, pid=4711, streams={"readings": {}})
        assert run_task.main(["ingest", "choose", *words]) == 99
    assert "4711" in capsys.readouterr().out
    assert run_task.main(["ingest", "chose", *words]) == 1
    assert "there are take.readings, choose" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "landing")
    (tmp_path / "tidemark.toml").unlink()
    assert run_task.main(["ingest", "choose", *words, "--permanent", "98"]) == 98
    assert "ingest choose: " in capsys.readouterr().err


@pytest.mark.parametrize(("code", "ends"), [(98, "AirflowFailException"), (1, "AirflowException")])
def test_a_pod_that_failed_in_a_way_that_stays_is_not_started_again(
    code: int, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
    from airflow.sdk.exceptions import AirflowException
    from kubernetes.client import models

    from dags._pod_failure import PodOperator

    def cleanup(*_: Any, **__: Any) -> None:
        raise AirflowException("pod returned a failure")

    # There is no cluster to delete the pod from.
    monkeypatch.setattr(KubernetesPodOperator, "cleanup", cleanup)
    state = models.V1ContainerState(terminated=models.V1ContainerStateTerminated(exit_code=code))
    status = models.V1ContainerStatus(
        name="base", state=state, image="x", image_id="x", ready=False, restart_count=0
    )
    pod = models.V1Pod(status=models.V1PodStatus(phase="Failed", container_statuses=[status]))

    with pytest.raises(AirflowException, match="pod returned a failure") as failure:
        PodOperator(task_id="take", name="take", image="x").cleanup(pod, pod)

    assert type(failure.value).__name__ == ends
