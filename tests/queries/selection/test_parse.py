from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.config.problems import Problem
from lakehouse.queries.kind import DEADLINE_US, Conjunct, Output, PythonCall, Side, definition_of
from lakehouse.queries.registered import QueryError, parse_query, read_queries
from lakehouse.queries.selection.query import SelectionQuery
from tests.queries.declared_streams import stream_of

STREAMS = {"readings": stream_of()}
HEAD = "SELECT device, temp AS t FROM readings"
FILES = {
    "odd": "import re\n\n\ndef odd(room: str | None, count: int) -> bool:\n    return True\n",
    "whole": "def whole(temp, volts=None):\n    return temp\n",
    "several": "def several(*columns):\n    return columns[0]\n",
    "torn": "def torn(:\n",
    "elsewhere": "def other(temp):\n    return temp\n",
    "lacking": '"""Asks a model."""\n\nimport no_such_model\n\n\ndef lacking(temp):\n    return temp\n',
    "named": "def named(temp, *, unit):\n    return temp\n",
}


@pytest.fixture
def predicates(tmp_path: Path) -> Path:
    folder = tmp_path / "predicates"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def selection_of(text: str, predicates: Path | None = None) -> SelectionQuery:
    query = parse_query("chosen", text, STREAMS, predicates)
    assert isinstance(query, SelectionQuery)
    return query


def test_a_select_over_one_stream_becomes_conditions_in_the_written_order(predicates: Path) -> None:
    where = "r.temp > 5 AND odd(room, count) AND (volts < 3.5 OR device LIKE 'a%')"
    text = f"-- warm ones\n{HEAD} r WHERE {where} DEADLINE 600 MILLISECONDS"

    assert selection_of(text, predicates) == SelectionQuery(
        name="chosen",
        text=text,
        description="warm ones",
        sides=(Side("readings", "r"),),
        conjuncts=(
            Conjunct("`temp` > 5", ("temp",)),
            Conjunct(
                "odd(room, count)", ("room", "count"), PythonCall("odd", predicates / "odd.py", by_row=True)
            ),
            Conjunct("(`volts` < 3.5 OR `device` LIKE 'a%')", ("device", "volts")),
        ),
        outputs=(Output("device", 0, "device"), Output("t", 0, "temp")),
        deadline_us=600_000,
    )


def test_a_star_is_all_declared_columns_and_the_deadline_has_a_default() -> None:
    query = selection_of("SELECT * FROM readings WHERE temp > 5")

    assert [output.name for output in query.outputs] == list(STREAMS["readings"].all_columns)
    assert query.deadline_us == DEADLINE_US
    assert query.read == tuple(sorted(STREAMS["readings"].all_columns))


def test_what_is_written_twice_is_asked_once_and_between_is_two_conditions() -> None:
    query = selection_of(f"{HEAD} WHERE temp > 5 AND count BETWEEN 1 AND 3 AND readings.temp > 5")

    assert [each.text for each in query.conjuncts] == ["`temp` > 5", "`count` >= 1", "`count` <= 3"]


def test_order_and_deadline_are_no_part_of_what_a_selection_means_and_files_are_not_either(
    predicates: Path,
) -> None:
    one = selection_of(f"{HEAD} WHERE temp > 5 AND whole(temp)", predicates)
    (predicates / "whole.py").write_text("def whole(temp):\n    return temp\n", encoding="utf-8")
    two = selection_of(f"{HEAD} x WHERE whole(x.temp) AND x.temp > 5 DEADLINE 1 SECOND", predicates)

    assert one.definition() == two.definition()
    assert definition_of(one) == definition_of(two) == f"{one.definition()} ROW BY ROW"
    assert selection_of(f"{HEAD} WHERE temp > 6").definition() != one.definition()


@pytest.mark.parametrize("call", ["whole(temp)", "whole(temp, volts)", "several(temp, room, volts)"])
def test_a_function_is_called_with_as_many_columns_as_it_takes(predicates: Path, call: str) -> None:
    (conjunct,) = selection_of(f"{HEAD} WHERE {call}", predicates).conjuncts

    assert conjunct.text == call
    assert conjunct.call and not conjunct.call.by_row


# Each is a query whose fault stands at the mark, and what is told of it.
FAULTS = [
    (f"{HEAD}^", "no WHERE; expected WHERE and the conditions"),
    (f"{HEAD} WHERE ^temp", "a number; expected a condition that is true or false"),
    (f"{HEAD} WHERE ^1 = 1", "a condition that reads no column"),
    (f"{HEAD} WHERE ^tmp > 1", "the unknown column 'tmp'.*did you mean temp"),
    (
        f"{HEAD} WHERE ^od(room, count)",
        "the unknown predicate 'od'; expected .*did you mean odd.*file predicates/od.py",
    ),
    (f"{HEAD} WHERE ^odd(room)", "1 columns for odd; expected 2, as predicates/odd.py has it: room, count"),
    (f"{HEAD} WHERE ^whole(temp, volts, room)", "3 columns for whole; expected 1 to 2"),
    (f"{HEAD} WHERE whole(^temp + 1)", "temp . 1; expected a plain column"),
    (f"{HEAD} WHERE whole(^tmp)", "the unknown column 'tmp'"),
    (f"{HEAD} WHERE ^several()", r"several\(\) without a column"),
    (
        f"{HEAD} WHERE temp > 1 OR ^whole(temp)",
        "within a condition; expected the call of a predicate that stands by",
    ),
    (f"{HEAD} WHERE NOT ^whole(temp)", "within a condition"),
    (f"{HEAD} WHERE ^torn(temp)", "predicates/torn.py, which Python cannot read: .*line 1"),
    (f"{HEAD} WHERE ^elsewhere(temp)", "predicates/elsewhere.py without a function elsewhere"),
    (f"{HEAD} WHERE ^lacking(temp)", "imports no_such_model in line 3: there is no such module"),
    (f"{HEAD} WHERE ^named(temp)", "named with a parameter that must be named"),
    (f"{HEAD} WHERE temp > 1 ^SLACK 5 MINUTES", "SLACK in a selection; expected DEADLINE or nothing"),
    (f"{HEAD} WHERE temp > 1 DEADLINE ^0 SECONDS", "DEADLINE of 0; expected a duration above 0"),
    (f"{HEAD} WHERE temp > 1 DEADLINE ^fast", "'fast'; expected a whole number of microseconds"),
    (
        "SELECT temp AS ^row_id FROM readings WHERE temp > 1".replace("^", "").replace("temp AS", "^temp AS"),
        "an output 'row_id'",
    ),
    ("SELECT ^temp + 1 AS x FROM readings WHERE temp > 1", "a plain column"),
    ("SELECT temp FROM ^reading WHERE temp > 1", "the unknown stream 'reading'"),
    (
        "SELECT temp FROM ^readings [1 MINUTE] WHERE temp > 1 RECALL 0.9 OVER 1 MINUTE",
        "one stream; expected two",
    ),
]


@pytest.mark.parametrize(("marked", "told"), FAULTS)
def test_what_cannot_be_run_is_told_with_its_place(predicates: Path, marked: str, told: str) -> None:
    before, _, after = ("-- é\n" + marked).partition("^")

    with pytest.raises(QueryError, match=told) as refused:
        parse_query("chosen", before + after, STREAMS, predicates)

    line = before.count("\n") + 1
    column = len(before) - before.rfind("\n")
    assert (line, column) in {(fault.line, fault.column) for fault in refused.value.faults}


def test_a_deadline_is_of_selections_alone() -> None:
    text = "SELECT COUNT(*) FROM readings [1 HOUR] a, readings [1 HOUR] b WHERE a.device = b.device EVERY 1 MINUTE"

    with pytest.raises(QueryError, match="DEADLINE in an aggregate; expected no DEADLINE"):
        parse_query("counted", f"{text} DEADLINE 1 SECOND", STREAMS)


def test_a_folder_of_queries_finds_the_predicates_beside_it_and_runs_none_of_them(predicates: Path) -> None:
    (predicates / "loud.py").write_text(
        "raise SystemExit\n\n\ndef loud(temp):\n    return temp\n", encoding="utf-8"
    )
    folder = predicates.parent / "queries"
    folder.mkdir()
    (folder / "heard.sql").write_text(f"{HEAD} WHERE loud(temp)", encoding="utf-8")
    (folder / "lost.sql").write_text(f"{HEAD} WHERE quiet(temp)", encoding="utf-8")
    problems: list[Problem] = []

    found = read_queries(folder, STREAMS, problems)

    assert list(found) == ["heard"]
    assert [(problem.key, problem.found) for problem in problems] == [
        ("queries/lost.sql:1:46", "the unknown predicate 'quiet'")
    ]
