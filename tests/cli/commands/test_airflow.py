from __future__ import annotations

from tests.cli.conftest import Tidemark


def test_without_a_configuration_it_says_how_to_get_one(tidemark: Tidemark) -> None:
    ended = tidemark("airflow")

    assert ended.returncode == 2
    assert "`tidemark init` writes one" in ended.stderr
