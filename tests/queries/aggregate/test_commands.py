"""Join-aggregates as the commands ``queries``, ``explain`` and ``plot`` tell of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse.queries.aggregate.publish import snapshot_of
from lakehouse.serving.publish.publish import publish
from lakehouse.settings import Settings
from tests.cli.conftest import Tidemark
from tests.cli.pages.test_chart_page import EVIL, charts_of, in_a_browser, is_harmless, opened
from tests.queries import joined
from tests.queries.aggregate.test_state import told
from tests.queries.answered import PLAIN, TEXT, Aggregated, Alarm, Answer, declare

HOSTILE = f"x'; DROP TABLE queries; --{EVIL}\x1b[2J😀\""


def run_by_hand(settings: Settings, **changes: Any) -> Aggregated:
    """Write what two batches and a repair leave; return it."""
    given = replace(told(settings), **changes)
    given.write(settings.layout)
    return given


def published(settings: Settings, given: Aggregated | None = None) -> None:
    """Write and publish it, or something else that is written."""
    query = (given or run_by_hand(settings)).query
    publish(settings.layout, [], queries=[snapshot_of(settings.layout, query, settings.streams, None)])


def hostile(settings: Settings) -> Aggregated:
    """As ``run_by_hand``, with values that would be markup if they could, and numbers at the edge of doubles."""
    answers = [Answer(5 * n, 9, group=(HOSTILE,), value=(-1) ** n * 1e300) for n in range(20)]
    answers += [Answer(50, group=("",), value=float("inf"))]
    alarms = [Alarm("a", 5, group=(HOSTILE,)), Alarm("b", 5, 10, group=(HOSTILE,), state="cleared")]
    return run_by_hand(settings, answers=answers, alarms=alarms)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of a usual and of a hostile query, published once."""
    found = {name: tmp_path_factory.mktemp(name) for name in ("usual", "hostile")}
    published(declare(found["usual"]))
    settings = declare(found["hostile"])
    published(settings, hostile(settings))
    return found


@pytest.fixture
def usual_folder(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A test's folder with what two batches and a repair leave, published."""
    return Path(shutil.copytree(folders["usual"], tmp_path, dirs_exist_ok=True))


@pytest.fixture
def hostile_folder(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A test's folder with what ``hostile`` writes, published."""
    return Path(shutil.copytree(folders["hostile"], tmp_path, dirs_exist_ok=True))


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_queries_lists_each_kind_under_its_own_heads(called: Tidemark, tmp_path: Path) -> None:
    settings = declare(tmp_path, busy=TEXT, plain=PLAIN)
    run_by_hand(settings)

    lines = squeezed(called("queries").stdout)

    assert lines[0].startswith(
        "query state streams condition groups recall every method batches rows answered revised"
    )
    assert lines[2].startswith(
        "busy current asks [10s] a join replies [1m] b a.place = b.place place - 5s factorised 2 40 21 2 1 2 2 42 1,300"
    )
    assert lines[3].startswith("plain new, 4 wait asks [10s] a join replies [10s] b a.place = b.place - - 5s")


def test_queries_lists_joins_of_pairs_and_aggregates_in_two_tables(called: Tidemark, tmp_path: Path) -> None:
    settings = declare(tmp_path)
    pairs = (
        "SELECT a.temp FROM asks [2 SECONDS] a JOIN replies b ON a.place = b.place RECALL 0.9 OVER 1 MINUTE"
    )
    declare(tmp_path, near=pairs)
    run_by_hand(settings)

    lines = called("queries").stdout.splitlines()
    found = json.loads(called("queries", "--json").stdout)["queries"]

    assert [line for line in lines if line.startswith(("joins", "join-"))] == [
        "joins of pairs",
        "join-aggregates",
    ]
    assert [(facts["query"], facts["kind"]) for facts in found] == [("busy", "aggregate"), ("near", "pairs")]


def test_forgetting_an_aggregate_removes_all_its_tables(called: Tidemark, tmp_path: Path) -> None:
    settings = declare(tmp_path)
    run_by_hand(settings)

    done = json.loads(called("queries", "--forget", "busy", "--yes", "--json").stdout)

    assert done["removed_bytes"] > 0
    assert not [place for place in settings.layout.tables_of("busy") if place.exists()]
    assert json.loads(called("queries", "--json").stdout)["queries"][0]["state"] == "new"


def test_people_get_the_plan_in_words(called: Tidemark, tmp_path: Path) -> None:
    declare(tmp_path, busy=TEXT.replace("EVERY", "IDLE 1 HOUR EVERY"))

    ended = called("explain", "busy")

    lines = ended.stdout.splitlines()
    assert (ended.returncode, lines[0]) == (0, "busy: places where many ask and are answered")
    for line in (
        "state: new",
        "streams:   asks [10s] a join replies [1m] b",
        "where:     a: `temp` > 1",
        "joins:     rows that are in their windows at once and a.place = b.place",
        "groups:    a.place",
        "shows:     n = count(*), warmth = avg(b.temp)",
        "having:    max(b.temp) < 90 AND n > 5; each group that it lets through raises an alarm",
        "answers:   every 5s, once all streams have passed it; goes on without a stream that is silent for 1h; "
        "every event time is believed",
        "slack:     late rows revise answers up to 30s behind the last tick at once; what is older waits for the "
        "repair",
        "buckets:   none yet, by hash of a.place = b.place",
    ):
        assert line in lines
    assert any(line.startswith("method:    factorised: ") for line in lines)


def test_people_get_buckets_batches_answers_alarms_and_repairs(called: Tidemark, tmp_path: Path) -> None:
    run_by_hand(declare(tmp_path))

    lines = squeezed(called("explain", "busy").stdout)

    for line in (
        "0 30 900 20 4 3 0 2",
        "2 2026-01-02 00:02:00 3 2 20 4 2 1 2 42 1,300 - 2026-01-01 00:01:40",
        "answers: 21 given, 2 revised at once, 1 changed by repair",
        "late: 8 of 40 rows came after a tick they belong to had been answered",
        "final: ticks up to 2026-01-01 00:01:15, rows beyond the streams' latest apart",
        "to repair: 2 logged rows of batch 2, 2026-01-01 00:01:20 to 2026-01-01 00:01:31",
        "- 2026-01-01 00:01:30 0 c",
        "hall 2026-01-01 00:00:10 0 b",
        "hall 2026-01-01 00:00:00 2026-01-01 00:00:05 5s cleared 1 yes a -",
        "1 2026-01-02 01:00:00 1 1 1 1 2026-01-01 00:01:40",
    ):
        assert line in lines


def test_a_script_gets_every_section(called: Tidemark, tmp_path: Path) -> None:
    run_by_hand(declare(tmp_path))

    found = json.loads(called("explain", "busy", "--json").stdout)

    sections = {
        "plan",
        "buckets",
        "last_batches",
        "final_before_us",
        "raised",
        "ended",
        "to_repair",
        "last_repairs",
    }
    assert sections - set(found) == set()
    assert (found["query"], found["kind"], found["text"]) == ("busy", "aggregate", TEXT)


@pytest.mark.parametrize("text", [TEXT, PLAIN])
def test_a_query_that_never_ran_has_a_plan_and_a_page(called: Tidemark, tmp_path: Path, text: str) -> None:
    declare(tmp_path, busy=text)

    ended = called("explain", "busy", "--html", "busy.html")

    page = (tmp_path / "busy.html").read_text(encoding="utf-8")
    assert (ended.returncode, ended.stdout.splitlines()[1]) == (0, "state: new")
    assert "buckets, as the last batch left them" not in ended.stdout
    assert "nothing taken in yet" in page and charts_of(page) == []


def test_a_page_shows_each_output_revisions_and_memory(called: Tidemark, tmp_path: Path) -> None:
    run_by_hand(declare(tmp_path))

    called("explain", "busy", "--html", "busy.html")

    page = (tmp_path / "busy.html").read_text(encoding="utf-8")
    count, warmth, revisions, held, memory = charts_of(page)
    assert [one["kind"] for one in (revisions, held, memory)] == ["revisions", "held", "memory"]
    assert [one["heading"] for one in (count, warmth)] == ["n over event time", "warmth over event time"]
    rows = {place: [row for row in count["rows"] if row["key"]["place"] == place] for place in ("hall", None)}
    assert (rows[None][19]["value"], rows[None][19]["final"], rows[None][15]["final"]) == (21, False, True)
    assert (rows["hall"][16]["low"], rows["hall"][16]["value"], rows["hall"][16]["high"]) == (9, 9, 9)
    assert next(row["value"] for row in warmth["rows"] if row["key"]["place"] == "hall") == 1.5
    one = revisions["rows"][1]
    assert (one["answers"], one["revised"], one["repaired"]) == (1, 0, 1)
    assert (memory["rows"][1]["held"], memory["rows"][1]["bytes"]) == (42, 1300)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("explain", "busy"), ("plot", "--query", "busy"), ("plot", "--query", "busy", "--value", "warmth")],
)
def test_values_of_groups_stay_text_and_huge_numbers_are_drawn(
    called: Tidemark, hostile_folder: Path, words: tuple[str, ...]
) -> None:
    printed = called(*words).stdout
    ended = called(*words, "--html", "page.html")

    page = (hostile_folder / "page.html").read_text(encoding="utf-8")
    assert ended.returncode == 0 and "\x1b" not in printed and "\x1b" not in ended.stdout
    assert is_harmless(page)
    assert "DROP TABLE" in json.dumps(charts_of(page))


def test_numbers_that_json_does_not_know_are_null(called: Tidemark, hostile_folder: Path) -> None:
    text = called("plot", "--query", "busy", "--value", "warmth", "--group", "place=", "--json").stdout

    assert "Infinity" not in text and '"value": null' in text


def test_a_chart_of_answers_is_drawn_as_text_for_a_pipe(called: Tidemark, usual_folder: Path) -> None:
    lines = called("plot", "--query", "busy", "--group", "place=hall").stdout.splitlines()

    assert lines[0] == "n of busy by place, place=hall, per 5s"
    assert [line.split("┌─ ")[1] for line in lines if "┌─" in line] == ["hall"]
    assert max(map(len, lines)) <= 80
    # Ticks up to 75 s are final: those of a row that waits for the repair may still change.
    axis = next(line for line in lines if "└" in line).strip()
    assert axis == "└" + "─" * 16 + "╌" * 5
    assert lines[-1] == "╌ may still change"


def test_the_same_as_json_has_every_group_and_bucket(called: Tidemark, usual_folder: Path) -> None:
    words = (
        "plot",
        "--query",
        "busy",
        "--from",
        "2026-01-01",
        "--to",
        "2026-01-01T00:02",
        "--points",
        "2",
        "--json",
    )

    found = json.loads(called(*words).stdout)

    assert [(one["query"], one["output"], one["key"]) for one in found] == [
        ("busy", "n", {"place": "hall"}),
        ("busy", "n", {"place": None}),
    ]
    assert [bucket["ticks"] for bucket in found[0]["buckets"]] == [12, 9]
    assert [(bucket["low"], bucket["high"]) for bucket in found[0]["buckets"]] == [(2, 8), (0, 9)]
    assert json.loads(called(*words, "--limit", "1").stdout) == found[:1]


@pytest.mark.slow
@in_a_browser
def test_a_page_of_answers_marks_what_may_still_change(called: Tidemark, hostile_folder: Path) -> None:
    ended = called("plot", "--query", "busy", "--html", "shown.html")
    page = (hostile_folder / "shown.html").read_text(encoding="utf-8")
    probe = "const text = document.querySelector('.legend').innerText; point(charts[0], 0.5); see({text, tip: tip(0)});"

    seen = opened(hostile_folder, page, probe)

    assert (ended.returncode, ended.stdout) == (0, "wrote shown.html\n")
    assert (seen["faults"], seen["title"]) == ([], "n of busy by place, per 5s")
    assert "not final: may still change" in seen["text"] and "DROP TABLE" in seen["text"]
    assert "DROP TABLE" in seen["tip"] and "9 [9, 9], " in seen["tip"]


@pytest.mark.parametrize(
    ("words", "code", "told_of"),
    [
        ((), 2, "expected a stream, or --query and a registered join-aggregate"),
        (("asks", "--query", "busy"), 2, "a stream does not go with --query"),
        (("--query", "busy", "--by", "place", "--agg", "max"), 2, "--agg, --by does not go with --query"),
        (("asks", "--value", "n"), 2, "--value needs --query"),
        (("asks", "--group", "place=hall"), 2, "--group needs --query"),
        (("--query", "busy", "--group", "place"), 2, "expected KEY=VALUE"),
        (("--query", "bussy"), 2, "did you mean 'busy'?"),
        (("--query", "busy", "--value", "warmt"), 2, "did you mean 'warmth'?"),
        (("--query", "busy", "--from", "2027-01-01"), 1, "must begin before it ends"),
        (("--query", "busy", "--group", "place=cellar"), 1, "nothing to draw"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_the_reason(
    called: Tidemark, usual_folder: Path, words: tuple[str, ...], code: int, told_of: str
) -> None:
    ended = called("plot", *words)

    assert (ended.returncode, ended.stdout) == (code, "")
    assert told_of in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [["queries"], ["explain", "busy", "--html", "x.html"], ["plot", "--query", "busy"]],
    ids=" ".join,
)
def test_neither_an_engine_nor_a_compiler_is_loaded(command: list[str], usual_folder: Path) -> None:
    program = (
        "import sys; from lakehouse.cli.app import call; code = call(sys.argv[1:]);"
        "heavy = ('pyspark', 'airflow', 'pandas', 'numba', 'great_expectations', 'rich');"
        "print([name for name in heavy if name in sys.modules], code, file=sys.stderr)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program, *command],
        cwd=usual_folder,
        env={"PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.stderr == "[] 0\n"


def test_a_join_of_pairs_is_explained_as_before(called: Tidemark, tmp_path: Path) -> None:
    joined.run_by_hand(joined.declare(tmp_path))

    assert "target:" in called("explain", "replies").stdout
