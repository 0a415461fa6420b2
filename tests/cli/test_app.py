from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

from lakehouse.cli.app import COMMANDS, call
from lakehouse.service import ending
from tests.cli.conftest import Tidemark

HEAVY = (
    "pyspark",
    "delta",
    "airflow",
    "pandas",
    "great_expectations",
    "numba",
    "sqlglot",
    "pydantic_settings",
    "rich",
    "paho",
    "psutil",
)


def _name(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2].replace("_", "-")


@pytest.mark.parametrize("module", COMMANDS, ids=_name)
def test_every_command_has_help_with_examples(module: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert call([_name(module), "--help"]) == 0

    text = capsys.readouterr().out
    assert all(f"  {example}" in text for example in module.EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("example", [example for module in COMMANDS for example in module.EXAMPLES])
def test_every_example_is_a_command_line_that_can_be_read(
    example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(example.partition(" > ")[0].partition("   ")[0])

    assert call([*words[1:], "--help"]) == 0
    assert "Usage: tidemark" in capsys.readouterr().out


def test_an_error_of_a_command_that_a_signal_ends_is_not_told(
    called: Tidemark, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--config", "nowhere.toml", "status")
    assert "nowhere.toml" in called(*words).stderr
    monkeypatch.setattr(ending._State, "number", signal.SIGTERM)

    ended = called(*words)

    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")


def test_help_lists_every_command_and_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert call([]) == 0

    text = capsys.readouterr().out
    assert [line.split()[0] for line in text.partition("Commands:\n")[2].splitlines()] == [
        _name(m) for m in COMMANDS
    ]
    assert "Exit codes: 0 done; 1 the command failed; 2 wrong usage or configuration" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["tell"], "No such command 'tell'."),
        (["ask"], "Missing argument 'stream'."),
        (["ask", "telemetry", "temp", "--agg", "median"], "no aggregate 'median'. There are: sum,"),
        (["plot", "telemetry", "temp", "--agg", "mean"], "no aggregate 'mean'; did you mean 'avg'?"),
        (["--json", "status"], "No such option: --json"),
        (["sql", "SELECT 1", "--limit", "0"], "'--limit': Input should be greater than or equal to 1"),
    ],
)
def test_wrong_usage_is_one_message_and_code_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(arguments) == 2

    output = capsys.readouterr()
    assert told in output.err + output.out
    assert "Traceback" not in output.err


def test_an_error_is_a_message_without_a_traceback(tidemark: Tidemark) -> None:
    ended = tidemark("ask", "telemetry")

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.splitlines() == [ended.stderr.strip()]
    assert "nothing published yet" in ended.stderr


def test_with_json_an_error_is_one_object_on_stdout(tidemark: Tidemark) -> None:
    ended = tidemark("ask", "telemetry", "--json")

    assert (ended.returncode, ended.stderr) == (1, "")
    assert json.loads(ended.stdout)["error"]["kind"] == "NotPublished"


def test_the_version_is_that_of_the_installed_package(tidemark: Tidemark) -> None:
    ended = tidemark("--version")

    assert (ended.returncode, ended.stdout) == (0, f"tidemark {version('tidemark')}\n")


def test_debugging_shows_the_traceback(tidemark: Tidemark) -> None:
    ended = tidemark("ask", "telemetry", "--json", TIDEMARK_DEBUG="1")

    assert "Traceback (most recent call last)" in ended.stderr
    assert "error" in json.loads(ended.stdout)


def test_a_wrong_configuration_is_told_whole(tidemark: Tidemark, tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_text('hom = "x"\n[spark]\nshuffle_partitions = 0')

    ended = tidemark("run", "--json")

    error = json.loads(ended.stdout)["error"]
    assert (ended.returncode, error["kind"]) == (2, "ConfigError")
    assert [problem["key"] for problem in error["problems"]] == ["hom", "spark.shuffle_partitions"]


def test_who_stops_reading_early_gets_no_complaint(tidemark: Tidemark, tmp_path: Path) -> None:
    command = f"{sys.executable} -m lakehouse.cli simulate --rows 20 --files 1 --json | true"

    ended = subprocess.run(
        command,
        shell=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        check=False,
    )

    assert ended.stderr == b""


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["ask", "telemetry", "--help"],
        ["ask", "telemetry", "temp", "--by", "device", "--json"],
        ["plot", "telemetry", "temp"],
        ["sql", "SELECT 1", "--csv"],
        ["status", "--json"],
    ],
    ids=" ".join,
)
def test_a_light_command_loads_nothing_heavy(arguments: list[str], published_home: Path) -> None:
    program = (
        "import sys; from lakehouse.cli.app import call; code = call(sys.argv[1:]);"
        f"print([name for name in {HEAVY} if name in sys.modules], code, file=sys.stderr)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program, "--home", published_home, *arguments],
        env={"PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.stderr == "[] 0\n"
