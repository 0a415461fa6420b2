from __future__ import annotations

import json
from pathlib import Path

from lakehouse.settings import load_settings
from tests.cli.conftest import Tidemark


def test_init_writes_a_right_configuration_and_an_empty_home(tidemark: Tidemark, tmp_path: Path) -> None:
    ended = tidemark("init", "--json")

    assert json.loads(ended.stdout) == {
        "config": str(tmp_path / "tidemark.toml"),
        "home": str(tmp_path / "var"),
        "queries": [
            str(tmp_path / "queries" / name) for name in ("warm_and_dry.sql", "warmer_neighbours.sql")
        ],
    }
    settings = load_settings(tmp_path / "tidemark.toml")
    assert settings.home == tmp_path / "var" and list(settings.registered) == [
        "warm_and_dry",
        "warmer_neighbours",
    ]
    assert list((tmp_path / "var").iterdir()) == []


def test_a_configuration_that_is_there_is_kept_unless_forced(called: Tidemark, tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_text("# mine")

    refused = called("init")
    assert (refused.returncode, (tmp_path / "tidemark.toml").read_text()) == (2, "# mine")
    assert "--force replaces it" in refused.stderr

    assert called("init", "--force").returncode == 0
    assert "[streams.telemetry]" in (tmp_path / "tidemark.toml").read_text()


def test_a_chosen_home_is_written_into_the_configuration(called: Tidemark, tmp_path: Path) -> None:
    home = tmp_path / 'a "quoted" \\ home'

    ended = called("--config", "site/tidemark.toml", "--home", home, "init")

    assert ended.returncode == 0
    assert load_settings(tmp_path / "site" / "tidemark.toml").home == home
    assert home.is_dir()


def test_the_configuration_reads_what_simulate_writes(called: Tidemark, tmp_path: Path) -> None:
    called("init")
    called("simulate", "--rows", "50", "--files", "2")

    for stream in load_settings(tmp_path / "tidemark.toml").streams.values():
        landed = Path(stream.source.path)
        assert len(list(landed.parent.glob(landed.name))) == 2
