from __future__ import annotations

import datetime
import decimal
import json
import math
import subprocess
import sys
import uuid

import duckdb
import pytest

from lakehouse.serving.sandbox import guard
from lakehouse.serving.sandbox.sandbox import SqlFailed, _result
from lakehouse.serving.sandbox.worker import answer_to, plain
from tests.serving.conftest import Lakehouse


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**70, 2**70),
        (1.5, 1.5),
        (math.inf, "inf"),
        (decimal.Decimal("1.50"), "1.50"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.timedelta(hours=1), "1:00:00"),
        ({"a": [1, b"\x01"]}, {"a": [1, "01"]}),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_a_value_becomes_what_json_knows(value: object, expected: object) -> None:
    assert plain(value) == expected


def test_an_error_is_an_answer(lakehouse: Lakehouse) -> None:
    found = answer_to(lakehouse.reader.hold.path, "SELECT * FROM nodez", 10, 5.0, threads=1)

    assert "nodez" in found["error"]


@pytest.mark.parametrize("kind", [duckdb.InternalException, duckdb.FatalException, duckdb.IOException])
def test_what_duckdb_says_of_itself_goes_to_the_log_alone(
    lakehouse: Lakehouse,
    kind: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(*_: object) -> None:
        raise kind("INTERNAL Error: /opt/venv/duckdb.so(+0x1f) 0x7fab")

    monkeypatch.setattr(guard, "check_statement", fails)
    answer = answer_to(lakehouse.reader.hold.path, "SELECT 1", 10, 10, threads=1)

    for output, errors in (
        (json.dumps(answer).encode(), b""),
        (b"", b"Traceback\nDamagedFile: /srv/home/1.duckdb"),
    ):
        with pytest.raises(SqlFailed) as failed:
            _result(output, errors, 10)
        reference = str(failed.value).rpartition(" ")[2]
        assert "/" not in str(failed.value) and "0x" not in str(failed.value)
        assert reference in caplog.text
    assert "0x7fab" in caplog.text and "/srv/home" in caplog.text


def test_rows_are_cut_at_the_limit(lakehouse: Lakehouse) -> None:
    found = answer_to(lakehouse.reader.hold.path, "FROM range(3) AS t(i)", 2, 5.0, threads=1)

    assert found == {"columns": ["i"], "types": ["BIGINT"], "rows": [[0], [1]], "truncated": True}


def test_what_a_library_prints_is_no_part_of_the_answer(lakehouse: Lakehouse) -> None:
    """DuckDB shows its progress in statements that take more than two seconds: they had no answer."""
    request = {
        "path": str(lakehouse.reader.hold.path),
        "sql": "SELECT 7 AS n",
        "row_limit": 1,
        "timeout_s": 5.0,
    }
    words = (
        "import os; from lakehouse.serving.sandbox import worker; load = worker._load_code;"
        "worker._load_code = lambda: (load(), os.write(1, b'100% ')); worker.main()"
    )
    asked = json.dumps({**request, "memory_mb": 512}).encode()

    done = subprocess.run([sys.executable, "-c", words], input=asked, capture_output=True, check=True)

    assert json.loads(done.stdout)["rows"] == [[7]]


def test_limits_that_are_lower_already_stay() -> None:
    words = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300));"
        "from lakehouse.serving.sandbox.worker import _limit; _limit(1.0, 512);"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_FSIZE))"
    )

    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)

    assert done.stdout.split("\n")[0] == "(300, 300) (0, 0)"
