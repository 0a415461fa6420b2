from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.storage.control.lease import lease
from lakehouse.storage.layout import Home
from lakehouse.storage.query_meaning import read_definition, replace_definition
from tests.cli.conftest import Tidemark
from tests.queries.joined import declare, run_by_hand, write_ledger

FIELDS = {
    *(
        "query",
        "kind",
        "description",
        "streams",
        "from_clause",
        "window_us",
        "condition",
        "recall",
        "period_us",
        "state",
        "doubts",
    ),
    *(
        "waiting",
        "batches",
        "rows",
        "pairs_online",
        "pairs_repaired",
        "withdrawn",
        "open",
        "held",
        "state_bytes",
    ),
    *("newest_us", "last_batch_at", "last_batch_age_s"),
}


def test_a_script_gets_every_figure(called: Tidemark, tmp_path: Path) -> None:
    run_by_hand(declare(tmp_path))

    found = json.loads(called("queries", "--json").stdout)

    (query,) = found["queries"]
    assert (set(query), found["unregistered"]) == (FIELDS, [])
    assert (query["query"], query["state"], query["open"]) == ("replies", "current", 2)
    assert query["last_batch_at"] == "2026-01-02T00:02:00+00:00"


def test_people_get_one_line_per_query(called: Tidemark, tmp_path: Path) -> None:
    settings = declare(tmp_path)
    run_by_hand(settings)
    write_ledger(settings.layout, "flows", 5)

    headers, _, line = called("queries").stdout.splitlines()

    assert headers.split()[:3] == ["query", "state", "streams"]
    assert line.startswith("replies  behind by 3  telemetry r join flows s  2s")
    assert "r.device = s.src and r.temp < s.bytes - 0.5" in line and "0.95 over 1m" in line
    assert "2,850" in line and "2026-01-01 00:05:00" in line


def test_a_query_that_never_ran_is_no_error(called: Tidemark, tmp_path: Path) -> None:
    settings = declare(tmp_path)
    assert called("queries").stdout.splitlines()[-1].split()[:2] == ["replies", "new"]

    write_ledger(settings.layout, "flows", 2)
    assert "  new, 2 wait  " in called("queries").stdout


def test_a_query_whose_file_is_wrong_is_named_and_the_others_are_listed(
    called: Tidemark, tmp_path: Path
) -> None:
    run_by_hand(declare(tmp_path))
    (tmp_path / "queries" / "torn.sql").write_text("SELECT device FROM telemetry WHERE temq > 5", "utf-8")

    found = json.loads(called("queries", "--json").stdout)
    shown = called("queries").stdout

    assert [query["query"] for query in found["queries"]] == ["replies"]
    assert found["faulty"]["torn"][0].startswith("queries/torn.sql:1:36: found the unknown column 'temq'")
    assert "torn is set aside until its file is mended:\nqueries/torn.sql:1:36: found the" in shown
    refused = called("explain", "torn")
    assert (refused.returncode, "queries/torn.sql:1:36" in refused.stderr) == (2, True)


def test_without_any_query_it_is_told_where_one_goes(called: Tidemark, tmp_path: Path) -> None:
    called("init")
    for path in (tmp_path / "queries").glob("*.sql"):
        path.unlink()

    assert called("queries").stdout == f"no query is registered; one is a file {tmp_path}/queries/NAME.sql\n"


def test_forgetting_is_asked_for_and_done(
    called: Tidemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = declare(tmp_path)
    run_by_hand(settings)
    answers = iter([False, True])
    monkeypatch.setattr("typer.confirm", lambda *_, **__: next(answers))

    assert called("queries", "--forget", "replies").returncode == 1
    assert settings.layout.pairs("replies").exists()

    ended = called("queries", "--forget", "replies")
    assert (ended.returncode, ended.stdout.partition(",")[0]) == (0, "replies: forgotten")
    assert not settings.layout.pairs("replies").exists()
    assert json.loads(called("queries", "--json").stdout)["queries"][0]["state"] == "new"


def test_a_script_says_yes_itself(called: Tidemark, tmp_path: Path) -> None:
    run_by_hand(declare(tmp_path))

    refused = called("queries", "--forget", "replies", "--json")
    done = json.loads(called("queries", "--forget", "replies", "--yes", "--json").stdout)

    assert (refused.returncode, "--yes" in refused.stdout) == (2, True)
    assert done["query"] == "replies" and done["removed_bytes"] > 0


def test_nobody_to_ask_removes_nothing(tidemark: Tidemark, tmp_path: Path) -> None:
    settings = declare(tmp_path)
    run_by_hand(settings)

    ended = tidemark("queries", "--forget", "replies")

    assert ended.returncode != 0
    assert read_definition(settings.layout.batch_manifests("replies"))


def test_forgetting_is_refused_while_the_query_runs(called: Tidemark, tmp_path: Path) -> None:
    settings = declare(tmp_path)
    run_by_hand(settings)

    with lease(settings.layout, settings.layout.queries("replies")):
        ended = called("queries", "--forget", "replies", "--yes")

    assert ended.returncode == 1 and "another process writes this table now" in ended.stderr
    assert called("queries", "--forget", "replies", "--yes").returncode == 0


def test_an_unknown_query_is_refused_with_what_was_meant(called: Tidemark, tmp_path: Path) -> None:
    declare(tmp_path)

    ended = called("queries", "--forget", "reply", "--yes")

    told = "tidemark: no query 'reply'; expected one of replies (did you mean replies?)\n"
    assert (ended.returncode, ended.stderr) == (2, told)


def test_what_a_query_left_that_is_registered_no_longer_can_be_forgotten(
    called: Tidemark, tmp_path: Path
) -> None:
    declare(tmp_path)
    replace_definition(Home(tmp_path / "var").batch_manifests("old"), "something", "something")

    assert "old: has tables and is registered no longer" in called("queries").stdout
    assert called("queries", "--forget", "old", "--yes").returncode == 0
    assert json.loads(called("queries", "--json").stdout)["unregistered"] == []


@pytest.mark.slow
@pytest.mark.parametrize("command", [["queries"], ["explain", "replies", "--html", "x.html"]], ids=" ".join)
def test_neither_an_engine_nor_a_compiler_is_loaded(command: list[str], tmp_path: Path) -> None:
    run_by_hand(declare(tmp_path))
    program = (
        "import sys; from lakehouse.cli.app import call; code = call(sys.argv[1:]);"
        "heavy = ('pyspark', 'airflow', 'pandas', 'numba', 'great_expectations', 'rich');"
        "print([name for name in heavy if name in sys.modules], code, file=sys.stderr)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program, *command],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.stderr == "[] 0\n"
