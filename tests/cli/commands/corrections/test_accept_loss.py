from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.ingest.sources.manifest import OffsetRange
from tests.cli.conftest import Tidemark

CONFIG = """
[streams.readings]
event_time = { column = "ts", unit = "s" }
levels = ["1d forever"]
source = { kind = "kafka", servers = ["localhost:1"], topics = ["t"], format = "ndjson" }
[streams.files]
event_time = { column = "ts", unit = "s" }
levels = ["1d forever"]
source = { path = "landing/*", format = "ndjson" }
"""
LOST = (OffsetRange("t", 0, 10, 2510, "id"), OffsetRange("t", 3, 7, 8, "id"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("rivers",), "no stream 'rivers'; declared: files, readings"),
        (("files",), "files: its source is of kind 'files'; expected 'kafka'"),
        (("readings", "--json"), "--json asks nothing: it needs --yes"),
    ],
)
def test_what_is_asked_wrongly_is_refused_before_anything_starts(
    called: Tidemark, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    (tmp_path / "tidemark.toml").write_text(CONFIG)

    ended = called("accept-loss", *arguments)

    assert ended.returncode == 2
    assert told in ended.stderr + ended.stdout


@pytest.fixture
def losing(called: Tidemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run the command over a job that has found ``LOST``, without a broker and a JVM."""
    (tmp_path / "tidemark.toml").write_text(CONFIG)

    def job(settings: object, spark: object, stream: str, agree: Callable[[Any], bool]) -> dict[str, Any]:
        agreed = agree(LOST)
        partitions = {f"t/{each.partition}": each.count for each in LOST} if agreed else {}
        return {"lost": sum(partitions.values()), "partitions": partitions}

    monkeypatch.setattr("jobs.accept_loss.run", job)
    monkeypatch.setattr("lakehouse.spark.session.build_session", lambda settings: None)

    def run(*arguments: str, answer: str) -> Any:
        monkeypatch.setattr("typer.confirm", lambda text, err: answer == f"yes to {text}" or answer == "yes")
        return called("accept-loss", "readings", *arguments)

    return run


def test_a_loss_is_shown_and_nothing_is_done_without_a_yes(losing: Callable[..., Any]) -> None:
    ended = losing(answer="no")

    assert (ended.returncode, ended.stdout) == (1, "")


def test_an_accepted_loss_is_told_by_partition(losing: Callable[..., Any]) -> None:
    ended = losing(answer="yes")

    assert ended.returncode == 0
    assert (
        ended.stdout == "readings: went on without 2,501 messages: t/0 2,500, t/3 1; next: `tidemark run`\n"
    )


def test_the_question_names_every_range(losing: Callable[..., Any]) -> None:
    shown = (
        "The broker no longer has\nt/0 offsets 10 to 2509 (2,500 messages)\nt/3 offsets 7 to 7 (1 message)\n"
    )

    assert losing(answer=f"yes to {shown}Go on without them?").returncode == 0


def test_with_yes_nothing_is_asked_and_json_is_one_document(losing: Callable[..., Any]) -> None:
    ended = losing("--yes", "--json", answer="no")

    assert (ended.returncode, '"partitions"' in ended.stdout) == (0, True)
