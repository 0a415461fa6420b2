from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakehouse.storage.heartbeats import Heartbeat, write_heartbeat
from lakehouse.storage.layout import Home
from tests.cli.conftest import Tidemark

LORA = """
[streams.{}]
preset = "chirpstack"
source = {{ kind = "mqtt", broker = "mqtt://localhost:1", topics = ["a"] }}
"""
FILES = '[streams.conn]\npreset = "zeek-conn"\nsource.path = "x"\n'


@pytest.mark.parametrize(
    ("declared", "arguments", "told"),
    [
        (FILES, [], "no stream of kind 'mqtt' is declared"),
        (FILES, ["conn"], "stream 'conn' has kind 'files'"),
        (LORA.format("lora"), ["loar"], "no stream 'loar'; declared: lora"),
        (LORA.format("a") + LORA.format("b"), [], "give one stream, each has a bridge of its own: a, b"),
        (LORA.format("a"), ["--for", "soon"], "--for: found 'soon'"),
    ],
)
def test_what_cannot_be_bridged_is_told_before_anything_starts(
    called: Tidemark, tmp_path: Path, declared: str, arguments: list[str], told: str
) -> None:
    (tmp_path / "tidemark.toml").write_text(declared)

    ended = called("bridge", *arguments)

    assert (ended.returncode, told in ended.stderr) == (2, True)
    assert not (tmp_path / "landing").exists()


@pytest.mark.slow
def test_a_bridge_ends_when_its_time_is_over_though_no_broker_is_there(
    tidemark: Tidemark, tmp_path: Path
) -> None:
    (tmp_path / "tidemark.toml").write_text(LORA.format("lora"))

    ended = tidemark("bridge", "--for", "1s", "--json")

    assert json.loads(ended.stdout) == {"stream": "lora", "messages": 0, "repeated": 0, "files": 0}
    assert ended.stderr.count("cannot reach mqtt://localhost:1") == 1


COUNTS = {"messages": 1234, "repeated": 5, "files": 6, "waiting_bytes": 789}


def test_status_shows_a_bridge_before_anything_is_published(called: Tidemark, tmp_path: Path) -> None:
    now = datetime.now(UTC).isoformat()
    beat = Heartbeat("bridge", "lora", "running", now, now, 1, figures=COUNTS | {"last_message": now})
    write_heartbeat(Home(tmp_path / "var"), beat)

    lines = [line.split() for line in called("status").stdout.splitlines()]

    row = next(line for line in lines if line[:2] == ["lora", "bridge"])
    assert (row[2], row[-5:]) == ("running", ["1,234", "5", "6", "789", "-"])
    assert json.loads(called("status", "--json").stdout)["heartbeats"][0]["waiting_bytes"] == 789
