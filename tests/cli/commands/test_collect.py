from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Tidemark

HOST = '[streams.host]\npreset = "host"\nsource.every = "200ms"\n'


@pytest.mark.slow
def test_this_machine_is_recorded_until_the_time_is_over(tidemark: Tidemark, tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_text(HOST)

    ended = tidemark("collect", "--for", "3s", "--json")

    [figures] = json.loads(ended.stdout)
    assert figures["stream"] == "host" and figures["messages"] > 0 and figures["files"] == 1
    [path] = (tmp_path / "landing" / "host").glob("*.ndjson")
    assert len(path.read_text().splitlines()) == figures["messages"]
    assert f"host: landed {path.name}" in ended.stderr


def test_nothing_to_record_is_told_with_what_makes_it(called: Tidemark, tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_text("")

    ended = called("collect")

    assert ended.returncode == 2
    assert 'preset = "host" in [streams.NAME]' in ended.stderr
