from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Tidemark


def test_what_is_wrong_has_its_fix_and_code_1(tidemark: Tidemark, tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_text("[streams.a]")

    ended = tidemark("doctor", "--json", JAVA_HOME=str(tmp_path))

    found = json.loads(ended.stdout)
    wrong = {check["check"]: check["fix"] for check in found["checks"] if check["state"] == "wrong"}
    assert (ended.returncode, found["ok"]) == (1, False)
    assert wrong.keys() >= {"java", "configuration"}
    assert all(wrong.values())


def test_people_get_a_table_and_a_verdict(tidemark: Tidemark) -> None:
    ended = tidemark("doctor", JAVA_HOME="/nowhere")

    assert "no java in JAVA_HOME /nowhere" in ended.stdout
    assert ended.stdout.strip().endswith("wrong")
