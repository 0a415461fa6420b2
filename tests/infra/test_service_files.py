"""Files of a deployment: the commands and options that they name exist, and rights are no more than needed."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.cli.app import call
from lakehouse.service.workers import STOPS_WITHIN_S

INFRA = Path(__file__).parents[2] / "infra"
UNIT = INFRA / "systemd" / "tidemark.service"
UNITS = sorted((INFRA / "systemd").glob("*.service"))
IMAGE = INFRA / "Containerfile"


class _Unit(configparser.ConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return optionstr


@pytest.fixture(scope="module")
def unit() -> configparser.ConfigParser:
    return read_unit(UNIT)


def read_unit(path: Path) -> configparser.ConfigParser:
    read = _Unit(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    read.read_string(path.read_text())
    return read


@pytest.fixture(scope="module")
def image() -> list[tuple[str, str]]:
    """The image's instructions with their arguments, lines that go on put together."""
    text = re.sub(r"\\\n\s*", "", IMAGE.read_text())
    lines = (line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#"))
    return [(word, rest) for word, rest in lines]


def is_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> bool:
    """Tell if the command line has this command with all of these options."""
    name, options = words[0], [word for word in words[1:] if word.startswith("--")]
    assert call([name, "--help"]) == 0
    text = capsys.readouterr().out
    return all(f"{option} " in text for option in options)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_starts_a_command_that_there_is_without_rights(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = read_unit(path)["Service"]
    program, *words = shlex.split(service["ExecStart"])

    assert program.endswith("/.venv/bin/tidemark")
    assert is_command(words, capsys)
    assert service["User"] != "root" and service["NoNewPrivileges"] == "yes"


def test_the_unit_gives_it_time_to_stop_and_starts_it_again(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]

    assert int(service["TimeoutStopSec"]) > STOPS_WITHIN_S
    assert (service["KillSignal"], service["KillMode"]) == ("SIGTERM", "mixed")
    assert (service["Restart"], service["Type"]) == ("on-failure", "notify")
    assert service["User"] != "root" and service["NoNewPrivileges"] == "yes"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_finds_no_fault_with_a_unit(tmp_path: Path, path: Path) -> None:
    # Neither the program nor the user need be on this machine.
    text = path.read_text().replace("/opt/tidemark/.venv/bin/tidemark", sys.executable)
    text = text.replace("User=tidemark\n", "").replace("/opt/tidemark", str(tmp_path))
    copy = tmp_path / path.name
    copy.write_text(text)

    found = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False
    )

    of_ours = [line for line in found.stderr.splitlines() if "tidemark" in line]
    assert of_ours == []


def test_the_image_runs_a_command_that_there_is_as_a_user_without_rights(
    image: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    told = dict(image)

    assert json.loads(told["ENTRYPOINT"]) == ["tidemark"]
    assert is_command(json.loads(told["CMD"]), capsys)
    assert told["USER"] not in ("0", "root")
    assert told["STOPSIGNAL"] == "SIGTERM"


def test_the_image_is_healthy_by_the_heartbeat(image: list[tuple[str, str]], tmp_path: Path) -> None:
    _, _, command = dict(image)["HEALTHCHECK"].partition("CMD ")
    program, *words = json.loads(command)
    assert program == "python"

    run = [sys.executable, *words, "--home", str(tmp_path)]
    ended = subprocess.run(run, capture_output=True, text=True, cwd=INFRA.parent, check=False)

    assert (ended.returncode, json.loads(ended.stdout)["state"]) == (1, "none")


def test_the_image_copies_what_there_is(image: list[tuple[str, str]]) -> None:
    copied = [word for name, rest in image if name == "COPY" for word in rest.split()[:-1]]

    assert {"lakehouse", "jobs", "dags", "quality", "sql", "infra", "requirements.lock"} <= set(copied)
    assert all((INFRA.parent / name).exists() for name in copied)
