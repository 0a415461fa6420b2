from __future__ import annotations

import os
import time
from pathlib import Path

from infra import airflow_standalone
from infra.airflow_standalone import bound_logs


def test_a_component_goes_on_writing_to_its_log_when_it_is_cut(tmp_path: Path) -> None:
    log = tmp_path / "scheduler.log"
    descriptor = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    os.write(descriptor, b"x" * (airflow_standalone.LONGEST + 1))

    bound_logs(tmp_path)
    os.write(descriptor, b"after")
    os.close(descriptor)

    assert log.read_bytes() == b"after"
    before = tmp_path / "scheduler.log.1"
    assert before.stat().st_size == airflow_standalone.LONGEST + 1
    assert before.stat().st_mode & 0o777 == 0o600


def test_old_logs_of_tasks_go_with_their_folders_and_others_stay(tmp_path: Path) -> None:
    old = time.time() - airflow_standalone.OLDEST_S - 60
    for name in ("dag_id=a/run_id=1/attempt=1.log", "dag_id=a/run_id=2/attempt=1.log", "run.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in ("dag_id=a/run_id=1/attempt=1.log", "run.log"):
        os.utime(tmp_path / name, (old, old))

    bound_logs(tmp_path)
    os.utime(tmp_path / "dag_id=a" / "run_id=1", (old, old))
    bound_logs(tmp_path)

    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["dag_id=a/run_id=2/attempt=1.log", "run.log"]
    assert not (tmp_path / "dag_id=a" / "run_id=1").exists()
