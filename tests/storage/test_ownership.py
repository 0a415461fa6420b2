"""Files that commands and jobs make belong to their owner alone, whatever the shell lets others do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOKEN = ("-m", "lakehouse.cli", "--home", "{home}", "token", "add", "grafana", "--scope", "read")
MAKE = "import os; os.makedirs('{home}/x'); open('{home}/x/y', 'w')"
JOB = ("-c", f"from jobs import maintain; maintain.main(['--home', '{{home}}', 'none']); {MAKE}")
TASK = ("-c", f"from jobs.running.scheduled import configured; configured({{{{}}}}); {MAKE}")


@pytest.mark.slow
@pytest.mark.parametrize("words", [TOKEN, JOB, TASK], ids=["command", "job", "task"])
def test_what_is_made_is_its_owners_alone(tmp_path: Path, words: tuple[str, ...]) -> None:
    home, config = tmp_path / "home", tmp_path / "tidemark.toml"
    config.write_text("")
    started = [sys.executable, *(word.format(home=home) for word in words)]
    environment = {"TIDEMARK_CONFIG": str(config), "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    subprocess.run(started, cwd=tmp_path, env=environment, umask=0o022, check=True, capture_output=True)
    modes = {path.stat().st_mode & 0o777 for path in [home, *home.rglob("*")]}
    assert modes and not any(mode & 0o077 for mode in modes)
