"""Records of delimited text whose quotes span lines, in blocks of any size."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.config.checks import stream_problems
from lakehouse.config.stream import Stream
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.sources import lines as cut
from lakehouse.ingest.sources.files import landed, matching

TEXT = st.text(st.sampled_from('ab" ,\n\r;'), max_size=8)


def stream_of(path: str = "*", **source: Any) -> Stream:
    declared = {
        "name": "log",
        "event_time": {"column": "t", "unit": "s"},
        "event_time_bounds": ["1970-01-01", "2070-01-01"],
        "levels": ["1d forever"],
        "columns": {"note": "string"},
        "source": {"path": path, "format": "csv"} | source,
    }
    stream = Stream.model_validate(declared)
    assert stream_problems(stream) == []
    return stream


@given(st.lists(TEXT, max_size=12), st.integers(1, 40), st.sampled_from(["\n", "\r\n"]))
def test_records_are_those_of_the_csv_module_however_the_file_is_cut(
    notes: list[str], size: int, end: str
) -> None:
    # A return before a newline ends a line with it, in quotes too.
    notes = [note.replace("\r", "") for note in notes]
    text = io.StringIO()
    csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(
        (n, note) for n, note in enumerate(notes)
    )
    content = text.getvalue().encode()
    blocks = [(content[at : at + size], None) for at in range(0, len(content), size)]

    batches = list(cut.numbered_lines(blocks, 1 << 20, 0, b'"'))

    records = [record for batch in batches for record in batch["record"].to_pylist()]
    rows = list(csv.reader(io.StringIO(text.getvalue(), newline="")))
    assert [next(csv.reader(io.StringIO(each.decode(), newline=""))) for each in records] == rows
    numbers = [number for batch in batches for number in batch["source_line"].to_pylist()]
    assert numbers == [1 + n + sum(note.count("\n") for note in notes[:n]) for n in range(len(notes))]


def test_a_quote_that_is_never_closed_takes_the_longest_record_and_no_more() -> None:
    content = b'1,"open\n' + b"2,plain\n" * 100

    whole = list(cut.numbered_lines([(content, None)], 1 << 20, 0, b'"'))
    batches = list(cut.numbered_lines([(content[:100], None), (content[100:], None)], 50, 0, b'"'))

    assert sum(each.num_rows for each in whole) == 1
    rows = [row for each in batches for row in each.to_pylist()]
    assert rows[0]["fault"].startswith("too_long")
    assert [row["record"] for row in rows[1:]] == [b"2,plain"] * (len(rows) - 1) and len(rows) > 50


def test_a_note_of_several_lines_is_one_value(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b't,note\r\n1,"first\r\n\r\nthird ""x"""\r\n2,plain\r\n3,"open\r\n')
    stream = stream_of(str(tmp_path / "*.csv"), quoted_lines=True)

    rows = rows_of(stream)

    assert [(row["source_line"], row["note"], row["reason"]) for row in rows] == [
        (2, 'first\n\nthird "x"', None),
        (5, "plain", None),
        (6, None, "malformed"),
    ]


@pytest.mark.parametrize("more", [{"append": True}, {"format": "ndjson"}, {"separator": "whitespace"}])
def test_quotes_span_lines_where_there_are_quotes(more: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="quoted_lines"):
        stream_of(quoted_lines=True, **more)


def rows_of(stream: Stream) -> list[dict[str, object]]:
    [file] = [landed(*found, stream.source) for found in matching(stream.source)]
    parser = Parser.of_files(stream, [file])
    return [row for table in cut.parsed_file(file, 0, parser) for row in table.to_pylist()]


def archive(path: Path, **files: bytes) -> str:
    with zipfile.ZipFile(path, "w") as content:
        for name, body in files.items():
            content.writestr(name, body)
    return str(path)


def test_files_of_an_archive_are_read_one_after_the_other_by_their_names(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "a.zip",
        readme=b"x",
        data_1=b"t,note\n1,a\n2,b",
        data_2=b"t,note\r\n3,c\n",
        data_3=b"t,note\n",
    )
    stream = stream_of(path, members="^data_")

    rows = rows_of(stream)

    assert [(row["event_us"], row["note"], row["source_line"]) for row in rows] == [
        (1_000_000, "a", 2),
        (2_000_000, "b", 3),
        (3_000_000, "c", 4),
    ]
    assert [row["note"] for row in rows_of(stream_of(path, members="_2$"))] == ["c"]


def test_files_of_an_archive_that_are_not_alike_are_not_read_as_one(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", a=b"t,note\n1,a\n", b=b"note,t\nb,2\n")

    rows = rows_of(stream_of(path, members="."))

    assert [row["note"] for row in rows] == ["a", None]
    assert rows[1]["reason"] == "truncated_file" and "'b' has another header than 'a'" in str(
        rows[1]["detail"]
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "holds 2 files ('a', 'b'); expected one: members says which"),
        ({"members": "z"}, "expected one: 0 of them fit 'z'"),
        ({"members": ".", "comment": "#"}, "expected one: 2 of them fit '.'"),
    ],
)
def test_an_archive_says_why_it_is_not_read(tmp_path: Path, source: dict[str, str], message: str) -> None:
    path = archive(tmp_path / "a.zip", a=b"t,note\n1,a\n", b=b"t,note\n2,b\n")

    stream = stream_of(path, **source)
    [file] = [landed(*found, stream.source) for found in matching(stream.source)]

    assert message in str(file.unreadable)
