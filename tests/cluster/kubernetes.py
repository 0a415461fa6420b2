"""The API of a Kubernetes cluster on the loopback, and a node that starts pods as processes of this machine.

The API server and etcd are real (``infra/kubernetes/api_server.sh`` builds them): what is asked of them is checked by
its schemas, its admission and its rights. The node is not: nothing is mounted, no image is fetched and nothing confines
what it starts, so it shows what a pod's command does and not what a pod may do.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.loopback_cluster import HOST, free_port

ROOT = Path(__file__).parents[2]
TOOLS = Path(os.environ.get("TIDEMARK_KUBERNETES", ROOT / ".tools" / "kubernetes"))
IN_IMAGE = "/opt/tidemark"
NAMESPACE = "default"
_START_S = 60


def is_there() -> bool:
    """Return whether the API server has been built."""
    return all((TOOLS / name).is_file() for name in ("etcd", "kube-apiserver"))


@dataclass
class Api:
    """An API server: its address, the file of its certificate, and the token of one who may do anything."""

    folder: Path
    port: int = field(default_factory=free_port)
    token: str = "of-a-test"

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"https://{HOST}:{self.port}"

    @property
    def certificate(self) -> Path:
        """What it shows."""
        return self.folder / "certificates" / "apiserver.crt"

    def client(self) -> Any:
        """Return a client of Kubernetes' own with all rights."""
        from kubernetes.client import ApiClient, Configuration

        asked = Configuration(host=self.url)
        asked.api_key, asked.ssl_ca_cert = {"authorization": f"Bearer {self.token}"}, str(self.certificate)
        return ApiClient(asked)

    def credentials(self) -> Path:
        """Return a file by which any client is one with all rights."""
        cluster = {"server": self.url, "certificate-authority": str(self.certificate)}
        told = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "one", "cluster": cluster}],
            "users": [{"name": "one", "user": {"token": self.token}}],
            "contexts": [
                {"name": "one", "context": {"cluster": "one", "user": "one", "namespace": NAMESPACE}}
            ],
            "current-context": "one",
        }
        file = self.folder / "config.json"
        file.write_text(json.dumps(told))
        return file

    def token_of(self, account: str) -> Path:
        """Return the file of a token of a service account."""
        from kubernetes.client import CoreV1Api

        asked = {"spec": {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 3600}}
        made = CoreV1Api(self.client()).create_namespaced_service_account_token(account, NAMESPACE, asked)
        file = self.folder / f"{account}.token"
        file.write_text(made.status.token)
        return file


@contextmanager
def api_server(folder: Path) -> Iterator[Api]:
    """Start etcd and an API server that knows accounts, rights and the rules of pods without privileges."""
    folder.mkdir(parents=True)
    api, peers, clients = Api(folder), free_port(), free_port()
    subprocess.run(
        ["openssl", "genrsa", "-out", folder / "accounts.key", "2048"], check=True, capture_output=True
    )
    (folder / "tokens.csv").write_text(f'{api.token},test,1,"system:masters"\n')
    etcd = f"http://{HOST}:{clients}"
    etcd_words = {
        "data-dir": folder / "etcd",
        "listen-client-urls": etcd,
        "advertise-client-urls": etcd,
        "listen-peer-urls": f"http://{HOST}:{peers}",
        "unsafe-no-fsync": "true",
    }
    api_words = {
        "etcd-servers": etcd,
        "cert-dir": api.certificate.parent,
        "bind-address": HOST,
        "advertise-address": HOST,
        "secure-port": api.port,
        "service-account-key-file": folder / "accounts.key",
        "service-account-signing-key-file": folder / "accounts.key",
        "service-account-issuer": "https://kubernetes.default.svc",
        "authorization-mode": "RBAC",
        "token-auth-file": folder / "tokens.csv",
        "endpoint-reconciler-type": "none",
        "service-cluster-ip-range": "10.0.0.0/24",
    }
    started = [_daemon(folder, "etcd", etcd_words), _daemon(folder, "kube-apiserver", api_words)]
    try:
        _prepare(api)
        yield api
    finally:
        for process in reversed(started):
            process.kill()
            process.wait(30)


def _daemon(folder: Path, name: str, words: Mapping[str, object]) -> subprocess.Popen[bytes]:
    command = [str(TOOLS / name), *(f"--{word}={value}" for word, value in words.items())]
    log = (folder / f"{name}.log").open("wb")
    return subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def _prepare(api: Api) -> None:
    """Wait until it is ready; make what a cluster's controllers would, and refuse pods with privileges."""
    from kubernetes.client import CoreV1Api

    end = time.monotonic() + _START_S
    while True:
        try:
            core = CoreV1Api(api.client())
            core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "default"}})
            break
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
    rule = {"pod-security.kubernetes.io/enforce": "restricted"}
    core.patch_namespace(NAMESPACE, {"metadata": {"labels": rule}})


@dataclass
class Node:
    """Starts the pods of executors, and ends them when they are gone."""

    api: Api
    folder: Path
    environment: Mapping[str, str]
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Look at the pods until it is ended."""
        from kubernetes.client import CoreV1Api

        client = self.api.client()
        core = CoreV1Api(client)
        while not self.ended.wait(0.3):
            found = core.list_namespaced_pod(NAMESPACE, label_selector="spark-role=executor")
            pods = {pod["metadata"]["name"]: pod for pod in client.sanitize_for_serialization(found)["items"]}
            for name in pods.keys() - self.started.keys():
                self.pods[name], self.started[name] = pods[name], self._start(core, pods[name])
            for name, process in self.started.items():
                if name not in pods:
                    _end(process)
                elif process.poll() is not None and pods[name]["status"]["phase"] == "Running":
                    _tell(core, name, "Failed" if process.returncode else "Succeeded", process.returncode)
                elif process.poll() is None and pods[name]["status"]["phase"] == "Pending":
                    _tell(core, name, "Running", None)
        for process in self.started.values():
            _end(process)

    def _start(self, core: Any, pod: dict[str, Any]) -> subprocess.Popen[bytes]:
        """Start a pod's container with its variables, and what it mounts as folders of its own."""
        (container,) = pod["spec"]["containers"]
        own = self.folder / pod["metadata"]["name"]
        places = {IN_IMAGE: str(ROOT)}
        for number, mount in enumerate(container["volumeMounts"]):
            volume = next(each for each in pod["spec"]["volumes"] if each["name"] == mount["name"])
            (own / str(number)).mkdir(parents=True)
            places[mount["mountPath"]] = str(own / str(number))
            if "configMap" in volume:
                held = core.read_namespaced_config_map(volume["configMap"]["name"], NAMESPACE).data
                for name, text in held.items():
                    (own / str(number) / name).write_text(text)
        fields = {"status.podIP": HOST, "metadata.name": pod["metadata"]["name"]}
        variables: dict[str, str] = {}
        for each in container["env"]:
            source = each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            told = fields[source] if source else each.get("value", "")
            told = re.sub(r"\$\((\w+)\)", lambda found: variables.get(found[1], found[0]), told)
            variables[each["name"]] = _placed(told, places)
        # No process of a pod's own number here, so nothing that takes up orphans.
        words = [*container["command"], *container["args"]]
        command = [_placed(word, places) for word in words[words.index("--") + 1 :]]
        return subprocess.Popen(
            command,
            cwd=_placed(container["workingDir"], places),
            env={**self.environment, **variables},
            stdout=(own / "log").open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _placed(text: str, places: Mapping[str, str]) -> str:
    for inside, outside in places.items():
        if text == inside or text.startswith(f"{inside}/"):
            return outside + text[len(inside) :]
    return text


def _tell(core: Any, name: str, phase: str, code: int | None) -> None:
    """Say of a pod what a node's kubelet would."""
    from kubernetes.client import ApiException

    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    state = (
        {"running": {"startedAt": now}}
        if code is None
        else {"terminated": {"exitCode": code, "finishedAt": now}}
    )
    container = {
        "name": "spark-kubernetes-executor",
        "image": "tidemark",
        "imageID": "",
        "ready": code is None,
        "restartCount": 0,
        "state": state,
    }
    status = {"phase": phase, "podIP": HOST, "podIPs": [{"ip": HOST}], "containerStatuses": [container]}
    # It may have been deleted meanwhile.
    with suppress(ApiException):
        core.patch_namespaced_pod_status(name, NAMESPACE, {"status": status})


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


@contextmanager
def node(api: Api, folder: Path, environment: Mapping[str, str]) -> Iterator[Node]:
    """Run a node beside the block."""
    running = Node(api, folder, environment)
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        yield running
    finally:
        running.ended.set()
        thread.join(60)
