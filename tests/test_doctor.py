from __future__ import annotations

import re
import socket
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse.doctor import AIRFLOW_PORT, EXACT, examine
from lakehouse.home_checks import Finding
from lakehouse.ingest.sources.manifest import LandedFile, Manifest
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.spark.archived_classes import archive_file
from lakehouse.spark.jars import locked_jars
from lakehouse.storage.layout import Home
from tests.serving.streams import write_delta
from tests.support.stores.s3 import BUCKET, running

_STREAM = """
[streams.{name}]
event_time = {{ column = "ts", unit = "s" }}
levels = ["1d forever"]
source = {{ path = "{path}/*.csv", format = "csv", endpoint = "{endpoint}" }}
"""


def _found(config: Path, home: Path) -> dict[str, Finding]:
    return {finding.check: finding for finding in examine(config, home)}


@pytest.fixture
def empty_config(tmp_path: Path) -> Path:
    config = tmp_path / "tidemark.toml"
    config.write_text("")
    return config


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A JAVA_HOME whose java can be made to say anything."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    return tmp_path / "jdk" / "bin" / "java"


def _says(java: Path, text: str) -> None:
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    java.chmod(0o755)


def test_exact_versions_are_those_that_the_project_pins() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    pinned = dict(
        match for text in project["dependencies"] for match in re.findall(r"^([\w.-]+)==([\w.]+)$", text)
    )

    assert pinned == EXACT


def test_this_environment_has_the_versions_that_must_match(empty_config: Path, tmp_path: Path) -> None:
    found = _found(empty_config, tmp_path)

    assert {found[name].state for name in (*EXACT, "pandas", "python")} == {"ok"}
    assert "pyspark-client" not in found


@pytest.mark.parametrize("version", ["17.0.15", "21"])
def test_a_java_that_spark_starts_on_is_fine(
    java: Path, empty_config: Path, tmp_path: Path, version: str
) -> None:
    _says(java, f'openjdk version "{version}" 2025-04-15')

    assert _found(empty_config, tmp_path)["java"] == Finding("java", "ok", f"{version} at {java}")


@pytest.mark.parametrize(
    "told", ['openjdk version "11.0.2"', 'java version "1.8.0_291"', "cannot open shared object", ""]
)
def test_another_java_is_wrong_with_what_to_install(
    java: Path, empty_config: Path, tmp_path: Path, told: str
) -> None:
    _says(java, told)

    found = _found(empty_config, tmp_path)["java"]
    assert (found.state, "apt-get install openjdk-17" in found.fix) == ("wrong", True)


def test_a_java_that_does_not_start_is_told(java: Path, empty_config: Path, tmp_path: Path) -> None:
    java.write_text("not a program")

    assert "does not start" in _found(empty_config, tmp_path)["java"].found


def test_jars_that_were_never_fetched_have_their_command(
    empty_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_JARS", str(tmp_path / "none"))

    found = _found(empty_config, tmp_path)["jars"]
    assert (found.state, found.fix) == ("wrong", "run `python -m lakehouse.spark.jars`")
    assert "io.delta:delta-spark" in found.found


def test_a_jar_that_is_not_the_locked_one_is_named(
    empty_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_JARS", str(tmp_path / "jars"))
    for jar in locked_jars():
        jar.path.parent.mkdir(parents=True, exist_ok=True)
        jar.path.write_bytes(b"half of it")

    found = _found(empty_config, tmp_path)["jars"]
    assert (found.state, found.fix) == ("wrong", "run `python -m lakehouse.spark.jars`")
    assert f"damaged {locked_jars()[0].path}" in found.found


def test_without_an_archive_of_classes_jobs_start_slower(
    empty_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    missing = _found(empty_config, tmp_path)["class archive"]
    archive_file().parent.mkdir(parents=True)
    archive_file().touch()
    there = _found(empty_config, tmp_path)["class archive"]

    assert (missing.state, "infra.class_archive" in missing.fix) == ("warning", True)
    assert (there.state, there.found) == ("ok", str(archive_file()))


def test_a_taken_port_is_a_warning(empty_config: Path, tmp_path: Path) -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", AIRFLOW_PORT))
        server.listen()

        assert _found(empty_config, tmp_path)[f"port {AIRFLOW_PORT}"].state == "warning"


def test_every_problem_of_the_configuration_is_shown(tmp_path: Path) -> None:
    config = tmp_path / "tidemark.toml"
    config.write_text('hom = "x"\n[spark]\nshuffle_partitions = 0')

    found = _found(config, tmp_path)["configuration"]
    assert found.state == "wrong"
    assert "hom: found an unknown section" in found.found
    assert "spark.shuffle_partitions: found 0" in found.found


def test_no_configuration_yet_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEMARK_CONFIG", raising=False)

    found = {finding.check: finding for finding in examine(None, tmp_path)}
    assert (found["configuration"].state, "tidemark init" in found["configuration"].fix) == ("warning", True)


def test_a_home_that_cannot_be_written_is_wrong(empty_config: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    found = _found(empty_config, tmp_path / "file")["home"]
    assert (found.state, "--home" in found.fix) == ("wrong", True)


def test_a_home_that_is_not_there_is_looked_for_above_and_not_made(
    empty_config: Path, tmp_path: Path
) -> None:
    found = _found(empty_config, tmp_path / "a" / "b")

    assert found["home"] == Finding("home", "ok", f"{tmp_path}/a/b (not there yet), writable")
    assert re.match(r"[\d.]+ GiB free on \w+", found["disk"].found)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tidemark.toml"]


def test_what_was_set_aside_is_named_with_the_command_that_takes_it_in(
    empty_config: Path, tmp_path: Path
) -> None:
    for number in range(7):
        store = ManifestStore(Home(tmp_path / "var").manifests("readings"))
        file = LandedFile(f"/landing/{number}", 1, 1)
        store.put_in_place(Manifest(number + 1, "set_aside", (file,), error="no codec"))

    found = _found(empty_config, tmp_path / "var")["set aside of readings"]

    assert found.state == "warning" and "`tidemark requeue readings --reason set_aside`" in found.fix
    assert found.found.startswith("/landing/0 (no codec); ") and found.found.endswith(" and 2 more")


def test_files_of_tables_that_are_gone_are_named_with_what_to_do(empty_config: Path, tmp_path: Path) -> None:
    table = tmp_path / "var" / "rollup" / "readings"
    write_delta(pa.table({"batch": pa.array([1], pa.int64())}), table)
    whole = _found(empty_config, tmp_path / "var")["tables"]
    (file,) = table.glob("*.parquet")
    file.unlink()

    found = _found(empty_config, tmp_path / "var")["tables"]

    assert (whole.state, found.state) == ("ok", "wrong")
    assert found.found.startswith(f"{file} is gone: restore it") and "`tidemark run` builds it" in found.found


def test_whatever_is_not_ok_has_a_fix(tmp_path: Path) -> None:
    found = examine(tmp_path / "none.toml", None)

    assert all(finding.fix for finding in found if finding.state != "ok")


@pytest.mark.slow
def test_a_store_that_does_not_answer_is_wrong_and_one_that_does_is_fine(tmp_path: Path) -> None:
    with running() as store:
        config = tmp_path / "tidemark.toml"
        at = {"lost": "s3://elsewhere", "found": f"s3://{BUCKET}/in"}
        config.write_text(
            "".join(_STREAM.format(name=n, path=p, endpoint=store.endpoint) for n, p in at.items())
        )
        store.put("in/a.csv", b"")

        found = _found(config, tmp_path)

    assert found["store of found"].found.endswith("the first object is a.csv")
    assert (found["store of found"].state, found["store of lost"].state) == ("ok", "wrong")
    assert found["store of lost"].found == f"s3://elsewhere: there is no such bucket at {store.endpoint}"


def test_a_home_that_other_users_may_read_is_a_warning(empty_config: Path, tmp_path: Path) -> None:
    found = []
    for mode in (0o755, 0o710, 0o700):
        tmp_path.chmod(mode)
        found.append("privacy" in _found(empty_config, tmp_path))
    assert found == [True, True, False]
