from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from lakehouse.doctor import EXACT
from lakehouse.spark import jars
from lakehouse.spark.jars import Jar, JarsUnavailable, fetch, jar_paths, locked_jars, missing_jars

CONTENT = b"the jar"
JAR = Jar("org.example:tide:1.0", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who has no jars, no Maven settings and an empty repository."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("TIDEMARK_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("TIDEMARK_MAVEN", f"{(tmp_path / 'repository').as_uri()}/")
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def put(repository: Path, content: bytes) -> None:
    """Put the jar into a Maven repository."""
    path = repository / "org" / "example" / "tide" / "1.0" / "tide-1.0.jar"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)


def kept(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_the_lock_names_the_versions_that_the_project_pins() -> None:
    coordinates = [jar.coordinates for jar in locked_jars()]

    assert f"io.delta:delta-spark_4.1_2.13:{EXACT['delta-spark']}" in coordinates
    assert f"org.apache.spark:spark-sql-kafka-0-10_2.13:{EXACT['pyspark']}" in coordinates
    assert all(len(jar.sha256) == 64 for jar in locked_jars())
    assert missing_jars() == coordinates
    assert len(jar_paths()) == len(set(jar_paths())) == len(coordinates)


def test_a_jar_is_fetched_from_the_repository_and_kept_whole(tmp_path: Path) -> None:
    put(tmp_path / "repository", CONTENT)

    fetch(JAR)

    assert kept(tmp_path / "jars") == [tmp_path / "jars" / "jars" / "org.example_tide-1.0.jar"]
    assert JAR.is_kept()


def test_another_file_is_refused_with_both_hashes_and_not_kept(tmp_path: Path) -> None:
    put(tmp_path / "repository", b"another")

    with pytest.raises(JarsUnavailable) as refused:
        fetch(JAR)

    words = str(refused.value)
    assert "org.example_tide-1.0.jar" in words
    assert f"expected SHA-256 {JAR.sha256}, found {hashlib.sha256(b'another').hexdigest()}" in words
    assert "set TIDEMARK_MAVEN" in words
    assert kept(tmp_path / "jars") == []


def test_without_a_network_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_MAVEN", "http://127.0.0.1:9")

    with pytest.raises(
        JarsUnavailable, match=r"(?s)cannot fetch http://127\.0\.0\.1:9/org/example.*https_proxy"
    ):
        fetch(JAR)


def test_the_local_repository_is_used_where_it_has_the_jar(tmp_path: Path) -> None:
    put(tmp_path / "user" / ".m2" / "repository", CONTENT)

    fetch(JAR)

    assert JAR.is_kept()


@pytest.mark.parametrize(
    ("repositories", "is_used"), [("central", True), ("*, !central", False), ("*", True)]
)
def test_the_mirror_of_the_users_maven_settings_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repositories: str, is_used: bool
) -> None:
    monkeypatch.delenv("TIDEMARK_MAVEN")
    # Maven Central itself is not asked by tests.
    monkeypatch.setattr(jars, "_from_central", lambda jar: CONTENT)
    mirror = (
        f"<mirror><mirrorOf>{repositories}</mirrorOf><url>{(tmp_path / 'mirror').as_uri()}</url></mirror>"
    )
    settings = tmp_path / "user" / ".m2" / "settings.xml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f'<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors>{mirror}</mirrors></settings>'
    )
    if is_used:
        put(tmp_path / "mirror", CONTENT)

    fetch(JAR)

    assert JAR.is_kept()


def test_only_what_is_missing_or_damaged_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jars, "locked_jars", lambda: [JAR])
    put(tmp_path / "repository", CONTENT)
    JAR.path.parent.mkdir(parents=True)
    JAR.path.write_bytes(CONTENT[:3])

    assert jars.main() == 0
    assert "jar 1 of 1: org.example:tide:1.0" in capsys.readouterr().out
    assert jars.main() == 0
    assert capsys.readouterr().out == f"1 jars are in place: {tmp_path / 'jars'}\n"


def test_a_failure_ends_with_its_reason_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jars, "locked_jars", lambda: [JAR])

    assert jars.main() == 1
    assert capsys.readouterr().err.startswith("jars: cannot fetch file:")
