from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from lakehouse.cli.app import call
from lakehouse.serving.ask import raw
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.ask.question import AskError, Question
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.storage.layout import Home
from tests.serving.ask.test_ask import close, holds, questions, truth
from tests.serving.conftest import STREAMS, Lakehouse
from tests.serving.streams import write_delta


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(questions())
def test_the_exact_answer_is_the_truth(lakehouse: Lakehouse, question: Question) -> None:
    asked = (question.stream, question.measure, question.aggregate, question.start_us, question.end_us)

    (found,) = ask(lakehouse.reader, *asked, question.where, exact=True)

    assert holds(found, truth(question)), (found, truth(question))
    assert close(found.value, truth(question), 1e13)
    assert (found.exact, found.nodes_read, found.finest_granularity_us) == (True, 0, None)


def test_every_key_gets_its_exact_answer(lakehouse: Lakehouse) -> None:
    found = ask(lakehouse.reader, "deep", "hits", "sum", 13, 2901, by=["device"], exact=True)

    expected = [
        STREAMS["deep"].truth("hits", "sum", 13, 2901, {"device": part.key["device"]}) for part in found
    ]
    assert [part.value for part in found] == expected
    assert [part.key["device"] for part in found] == ["a", "b", "it's, {odd}=1", None]


def test_rows_of_batches_after_the_publish_do_not_count(tmp_path: Path) -> None:
    facts = STREAMS["pair"].write(tmp_path / "pair")
    publish(Home(tmp_path), [replace(facts, batch=0, totals=(), nodes=None)])

    (found,) = ask(tmp_path, "pair", "*", "count", 0, 1000, exact=True)

    assert found.value == 0


def test_without_raw_rows_the_answer_says_what_is_missing(tmp_path: Path) -> None:
    facts = STREAMS["pair"].write(tmp_path / "pair")
    publish(Home(tmp_path), [replace(facts, raw_path=str(tmp_path / "gone"))])

    with pytest.raises(AskError, match=r"exact needs the raw rows of pair, and there are none at .*gone"):
        ask(tmp_path, "pair", "*", "count", 0, 1000, exact=True)


def test_raw_rows_deleted_in_the_range_are_noticed(tmp_path: Path) -> None:
    facts = STREAMS["pair"].write(tmp_path / "pair")
    publish(Home(tmp_path), [facts])
    rows = pa.Table.from_pylist([vars(row) for row in STREAMS["pair"].rows if row.event_us > 500])
    write_delta(
        rows.cast(pa.schema([f.with_type(_types(f)) for f in rows.schema])), tmp_path / "pair" / "raw"
    )

    with pytest.raises(AskError, match=r"pair keeps only \d+ of at least \d+"):
        ask(tmp_path, "pair", "*", "count", 0, 1000, exact=True)


def test_a_table_of_which_all_rows_were_taken_out_has_none(tmp_path: Path) -> None:
    publish(Home(tmp_path), [STREAMS["pair"].write(tmp_path / "pair")])
    removed = {"path": "part-0.parquet", "deletionTimestamp": 1, "dataChange": True}
    commit = tmp_path / "pair" / "raw" / "_delta_log" / f"{1:020d}.json"
    commit.write_text(json.dumps({"remove": removed}) + "\n")

    with pytest.raises(AskError, match="pair keeps only 0 of at least 150"):
        ask(tmp_path, "pair", "*", "count", 0, 1000, exact=True)


MANY = 2_000_000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two million raw rows, each of a device of its own."""
    home = tmp_path_factory.mktemp("many")
    facts = STREAMS["pair"].write(home / "pair")
    publish(Home(home), [facts])
    number = np.arange(MANY)
    columns = {
        "event_us": number % 1000,
        "device": pa.array(number).cast(pa.string()),
        "zone": number,
        "temp": number / 7,
        "hits": number,
        "price": pa.nulls(MANY, pa.decimal128(38, 2)),
        "batch": np.ones(MANY, np.int64),
    }
    write_delta(pa.table(columns), home / "pair" / "raw")
    return home


@pytest.mark.slow
def test_an_exact_question_is_stopped_after_its_time_and_the_next_one_is_answered(many: Path) -> None:
    asked = (many, "pair", "temp", "sum", 0, 1000)
    (whole,) = ask(*asked, exact=True)

    with pytest.raises(AskError, match=r"stopped after [\d.]+ s: narrow the range, .*more time \(--timeout"):
        ask(*asked, by=["device", "zone"], exact=True, timeout_s=0.05)

    with open_published(many) as reader:
        with pytest.raises(AskError, match="stopped after"):
            ask(reader, *asked[1:], by=["device", "zone"], exact=True, timeout_s=0.05)
        assert ask(reader, *asked[1:], exact=True) == [whole]


def test_raw_rows_are_read_in_as_much_memory_as_a_version_and_nothing_is_written_for_more(
    many: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(raw, "MEMORY_LIMIT", "40MB")
    asked = (many, "pair", "temp", "sum", 0, 1000)

    with pytest.raises(
        AskError, match=r"more than the 40MB of memory .*: narrow the range, name some keys in where"
    ):
        ask(*asked, by=["device", "zone"], exact=True)

    (found,) = ask(*asked, exact=True)
    assert found.rows == MANY
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_says_how_long_it_ran_and_ends_with_1(
    many: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("ask", "pair", "temp", "--by", "device", "--by", "zone", "--exact", "--timeout", "0.05")

    assert call(["--home", str(many), *words]) == 1

    told = capsys.readouterr()
    assert told.out == ""
    assert re.match(r"tidemark: stopped after [\d.]+ s", told.err)


def _types(field: pa.Field) -> pa.DataType:
    return pa.decimal128(38, 2) if field.name == "price" else field.type
