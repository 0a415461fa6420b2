"""A record becomes the row or the verdict that its bytes mean, however it is spelled and whichever kernel reads it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.config.formats import SPELT
from lakehouse.config.stream import Stream
from lakehouse.ingest.forms.line_objects import as_objects
from lakehouse.ingest.parser import json_shapes
from lakehouse.ingest.parser.json_record import Texts
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.parser.plain_lines import cut_plain
from lakehouse.ingest.parser.record_texts import RecordTexts
from lakehouse.ingest.parser.verdicts import Rejected
from lakehouse.ingest.sources.manifest import Layout
from lakehouse.ingest.sources.numbered import located_lines
from lakehouse.storage.envelope import Message
from tests.benchmarks.sources import parser as sources_of_presets
from tests.benchmarks.sources.parser import kinds
from tests.ingest.odd_lines import ADDED, CASES, KEYS, T0, csv_line, damaged, declared, json_line
from tests.oracles.ingest import records as by_hand

US = 10**6


def numbered(records: Sequence[bytes], **more: pa.Array) -> pa.Table:
    numbers = pa.array(range(len(records)), pa.int64())
    lines = located_lines(numbers, pa.array(records, pa.binary()), "f")
    for name, column in more.items():
        lines = lines.append_column(name, column)
    return lines


def stream_of(file_format: str, columns: dict[str, Any], **more: Any) -> Stream:
    source = {"path": "x", "format": file_format, **more.pop("source", {})}
    event = more.pop("event_time", {"column": "ts", "unit": "s"})
    table = {"name": "s", "source": source, "event_time": event, "levels": ["1d forever"], "columns": columns}
    return Stream.model_validate(table | more)


def rows(
    records: Sequence[bytes], stream: Stream, layout: Layout = None, **more: pa.Array
) -> list[dict[str, Any]]:
    return list(Parser.of(stream, (layout,)).parse(numbered(records, **more)).to_pylist())


def row_by_hand(line: bytes, stream: Stream, layout: Layout) -> dict[str, Any]:
    """Return what a line becomes, or the reason for which it is rejected."""
    arrival_time, bounds = stream.arrival_time, stream.clock_bounds
    assert arrival_time is not None and bounds is not None
    # A member that is not read may be there twice.
    read = KEYS if arrival_time.plus else KEYS[:-1]
    texts = by_hand.csv_texts(line, layout) if layout else by_hand.json_texts(line, read)
    event = time_by_hand(texts["ts"], stream, "no_event_time", "bad_event_time")
    low, high = stream.event_time_bounds
    assert event is not None
    if not low <= event[0] < high:
        raise by_hand.Wrong("out_of_bounds")
    if event[1]:
        raise by_hand.Wrong(event[1])
    arrival = time_by_hand(texts["received"], stream, None, "bad_arrival_time")
    arrival_us = None if arrival is None else arrival[0]
    if arrival_us is not None and arrival_time.plus and texts["lasting"] is not None:
        seconds = by_hand.number(texts["lasting"])
        arrival_us = -(2**70) if seconds is None else arrival_us + (seconds * US).__floor__()
        if not -(2**63) <= arrival_us < 2**63:
            raise by_hand.Wrong("bad_arrival_time")
    delay = 0 if arrival_us is None else arrival_us - event[0]
    if not -bounds.ahead <= delay <= bounds.behind:
        raise by_hand.Wrong("clock")
    found: dict[str, Any] = {"event_us": event[0], "arrival_us": arrival_us}
    columns = stream.all_columns.items()
    return found | {name: by_hand.value(texts[name], c.type, c.decimals) for name, c in columns}


def time_by_hand(
    text: str | None, stream: Stream, missing: str | None, bad: str
) -> tuple[int, str | None] | None:
    if text is None:
        if missing:
            raise by_hand.Wrong(missing)
        return None
    found = by_hand.time_of(text, stream.event_time.unit, stream.event_time.timezone)
    if found is None:
        raise by_hand.Wrong(bad)
    return found


@pytest.mark.parametrize(("file_format", "unit", "more"), CASES)
def test_a_line_becomes_the_row_or_the_verdict_that_is_read_by_hand(
    file_format: str, unit: str, more: dict[str, Any]
) -> None:
    pick, stream = random.Random(f"{file_format} {unit} {more}"), declared(file_format, unit, **more)
    line, layout = (csv_line, KEYS) if file_format == "csv" else (json_line, None)
    records = [line(pick, unit).encode() for _ in range(2000)]
    records += [damaged(pick, line(pick, unit)) for _ in range(700)]
    records = [record for record in records if record.strip()]

    found = rows(records, stream, layout)

    assert [row["source_line"] for row in found] == list(range(len(records)))
    for record, row in zip(records, found, strict=True):
        try:
            expected = row_by_hand(record, stream, layout)
            assert row["reason"] is None, (record, row)
            assert {name: fraction(row[name]) for name in expected} == expected, record
        except by_hand.Wrong as wrong:
            assert (row["reason"], row["record"]) == (str(wrong), record), (record, row["detail"])
    assert sum(row["reason"] is None for row in found) > 300
    assert len({row["reason"] for row in found}) > 4


def fraction(value: Any) -> Any:
    return Fraction(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("unit", ["s", "iso"])
def test_any_spelling_of_a_record_of_json_is_the_same_row(unit: str) -> None:
    pick, stream = random.Random(unit), declared("ndjson", unit)
    records = [json_line(pick, unit) for _ in range(600)]
    records = [record for record in records if by_members(record) is not None]
    usual = rows([record.encode() for record in records], stream)
    for spell in (reordered, spread, escaped):
        others = rows([spell(pick, record).encode() for record in records], stream)
        for record, one, other in zip(records, usual, others, strict=True):
            assert one | {"record": None} == other | {"record": None}, (spell, record)


def by_members(record: str) -> list[tuple[str, str]] | None:
    """Return the members of an object with each value as it is spelled."""
    try:
        members = json.JSONDecoder(
            object_pairs_hook=list, parse_float=Spelled, parse_int=Spelled, parse_constant=Spelled
        ).decode(record)
    except ValueError:
        return None
    if not record.strip().startswith("{") or len({name for name, _ in members}) < len(members):
        return None
    if any(isinstance(value, list) for _, value in members):
        return None
    return [(n, v if isinstance(v, Spelled) else json.dumps(v, ensure_ascii=False)) for n, v in members]


class Spelled(str):
    pass


def reordered(pick: random.Random, record: str) -> str:
    members = by_members(record) or []
    pick.shuffle(members)
    return "{" + ",".join(f'"{name}":{value}' for name, value in members) + "}"


def spread(_: random.Random, record: str) -> str:
    members = (f'\t"{name}"  :\r {value}\n' for name, value in by_members(record) or [])
    return " { " + " , ".join(members).replace("\n", " ") + "}  "


def escaped(pick: random.Random, record: str) -> str:
    def spelled(name: str) -> str:
        at = pick.randrange(len(name))
        return f"{name[:at]}\\u{ord(name[at]):04x}{name[at + 1 :]}"

    return "{" + ",".join(f'"{spelled(name)}":{value}' for name, value in by_members(record) or []) + "}"


def test_any_quoting_of_a_line_of_csv_is_the_same_row() -> None:
    pick, stream = random.Random(5), declared("csv", "s")
    lines = [csv_line(pick, "s") for _ in range(600)]
    lines = [line for line in lines if '"' not in line and line.count(",") == len(KEYS) - 1]
    usual = rows([line.encode() for line in lines], stream, KEYS)
    for before, after in [('"', '"'), (' "', '"\t'), (" ", "\t")]:
        quoted = [",".join(f"{before}{field}{after}" for field in line.split(",")) for line in lines]
        others = rows([line.encode() for line in quoted], stream, KEYS)
        for one, other in zip(usual, others, strict=True):
            assert one | {"record": None} == other | {"record": None}
    assert len(lines) > 200


def test_exact_numbers_lose_no_digit_whatever_else_a_record_has() -> None:
    columns = {"v": {"type": "decimal", "decimals": 3}, "n": "int", "t": "string"}
    stream = stream_of("ndjson", columns)
    texts = ["a", "\\u0061", 'a\\"', "\u00e4", " a "]
    record = '{{"ts": 1600000000.123456, "v": 9007199254740993.001, "n": 9223372036854775807, "t": "{}"}}'

    found = rows([record.format(text).encode() for text in texts], stream)

    assert [row["t"] for row in found] == ["a", "a", 'a"', "\u00e4", "a"]
    for row in found:
        assert row["event_us"] == 1_600_000_000_123_456
        assert (row["v"], row["n"]) == (Decimal("9007199254740993.001"), 2**63 - 1)


def test_a_column_of_texts_has_numbers_as_they_are_written_and_what_is_nested_as_json() -> None:
    stream = stream_of("ndjson", {"v": "string"})
    spelled = ["7.2500", "1e3", "-0", "true", '{ "b": [1.0, null], "a": "\\u00e9" }', '"\\ud800"', "NaN"]
    found = rows([f'{{"ts": {T0}, "v": {value}}}'.encode() for value in spelled], stream)
    expected = ["7.2500", "1e3", "-0", "true", '{"b":[1.0,null],"a":"\u00e9"}', "\ufffd", "NaN"]
    assert [row["v"] for row in found] == expected


def test_nothing_deeper_than_its_limit_is_parsed_and_braces_in_texts_do_not_count() -> None:
    stream = stream_of("ndjson", {"v": "string"})
    nested = ["[" * depth + "]" * depth for depth in (198, 199, 200, 100_000)]
    found = rows(
        [f'{{"ts": {T0}, "v": {value}}}'.encode() for value in (*nested, '"' + "{" * 5000 + '"')], stream
    )
    assert [row["reason"] for row in found] == [None, None, "malformed", "malformed", None]


NESTED = {
    '{"v": 1, "v": 2}': "malformed",
    '{"v": 1}, "d": {"v": 2}': "malformed",
    '[{"v": 1}, {"v": 2}]': "bad_value",
    '"v"': "bad_value",
    **dict.fromkeys(
        ("null", "{}", "[]", '{"x": {"v": 1}}', '{"v": null}, "e": {"v": 1, "v": 2}', '{"v": 7}')
    ),
}


def test_a_path_that_meets_no_object_and_a_member_that_repeats_reject_their_record() -> None:
    stream = stream_of("ndjson", {"v": {"path": "d.v", "type": "int"}})
    found = rows([f'{{"ts": {T0}, "d": {inner}}}'.encode() for inner in NESTED], stream)
    assert [row["reason"] for row in found] == list(NESTED.values())
    assert [row["v"] for row in found if row["v"] is not None] == [7]
    assert found[2]["detail"] == (
        'd is \'[{"v":1},{"v":2}]\', expected an object; a list has values only where explode names it'
    )


@pytest.mark.parametrize("is_escaped", [False, True])
def test_each_item_of_a_list_is_a_row_and_has_its_own_verdict(is_escaped: bool) -> None:
    stream = stream_of(
        "ndjson", {"v": {"path": "l.gw.v", "type": "int"}, "o": {"path": "a.b"}}, source={"explode": "l"}
    )
    items: list[list[Any]] = [
        [{"gw": {"v": 2}}, {"gw": {"v": 3, "w": {"v": 4}}}, {}, None],
        [{"gw": [{"v": 1}]}, {"gw": {"v": 2}}, {"gw": {"v": "x"}}, 7],
        [],
    ]
    records = [json.dumps({"ts": T0, "l": each, "a": {"b": "x"}}) for each in items]
    if is_escaped:
        records = [record.replace('"a"', '"\\u0061"') for record in records]

    found = rows([record.encode() for record in records], stream)

    told = [(row["source_line"], row["source_item"], row["v"], row["o"], row["reason"]) for row in found]
    assert told == [
        (0, 0, 2, "x", None),
        (0, 1, 3, "x", None),
        (0, 2, None, "x", None),
        (0, 3, None, "x", None),
        (1, 0, None, None, "bad_value"),
        (1, 1, 2, "x", None),
        (1, 2, None, None, "bad_value"),
        (1, 3, None, None, "bad_value"),
        (2, 0, None, None, "no_items"),
    ]


def _values(found: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("source_line", "source_item", *names, "reason")) for row in found]


def test_lists_in_lists_are_opened_level_by_level() -> None:
    columns = {"v": {"path": "l.gw.v", "type": "int"}, "d": {"path": "l.d"}, "o": {"path": "a.b"}}
    stream = stream_of("ndjson", columns, source={"explode": ["l", "l.gw"]})
    lists: list[list[Any]] = [
        [{"d": "x", "gw": [{"v": 1}, {"v": 2}]}, {"d": "y", "gw": [{"v": "z"}, {"v": 4}]}],
        [{"d": "x", "gw": []}, {"gw": [{"v": 5}]}, 7, {"d": {"e": 1}, "gw": {"v": 6}}],
        [],
    ]
    records = [json.dumps({"ts": T0, "l": each, "a": {"b": "o"}}).encode() for each in lists]

    assert _values(rows(records, stream), "v", "d", "o") == [
        (0, 0, 1, "x", "o", None),
        (0, 1, 2, "x", "o", None),
        (0, 2, None, None, None, "bad_value"),
        (0, 3, 4, "y", "o", None),
        (1, 0, None, None, None, "no_items"),
        (1, 1, 5, None, "o", None),
        (1, 2, None, None, None, "bad_value"),
        (1, 3, None, None, None, "no_items"),
        (2, 0, None, None, None, "no_items"),
    ]


def test_lists_side_by_side_are_opened_together() -> None:
    columns = {"name": {"path": "value.property"}, "v": {"path": "value.value", "type": "double"}}
    explode = ["value", ["value.property", "value.value"]]
    stream = stream_of("ndjson", columns, source={"explode": explode})
    lists = [
        [{"property": ["T", "RH"], "value": [21.5, 40]}, {"property": ["T"], "value": [22]}],
        [{"property": ["T", "RH"], "value": [21.5]}],
    ]
    records = [json.dumps({"ts": T0, "value": each}).encode() for each in lists]

    found = rows(records, stream)

    assert _values(found, "name", "v") == [
        (0, 0, "T", 21.5, None),
        (0, 1, "RH", 40.0, None),
        (0, 2, "T", 22.0, None),
        (1, 0, None, None, "malformed"),
    ]
    expected = "the lists value.property and value.value have 1 and 2 items; expected as many"
    assert found[-1]["detail"] == expected


def test_lists_in_lists_of_too_many_items_are_one_rejected_record() -> None:
    stream = stream_of("ndjson", {"v": {"path": "l.g.v"}}, source={"explode": ["l", "l.g"]})
    inner = "{}," * 999 + "{}"
    items = ", ".join([f'{{"g": [{inner}]}}'] * 101)
    record = f'{{"ts": {T0}, "l": [{items}]}}'

    (only,) = rows([record.encode()], stream)

    assert only["detail"] == "its lists have more than 100000 items; expected at most as many"


def test_lines_of_a_few_shapes_are_plain_however_deep_they_are() -> None:
    stream = stream_of("ndjson", {"v": {"path": "l.v", "type": "int"}}, source={"explode": "l"})
    records = [json.dumps({"ts": T0, "l": [{"v": n, "x": [1, {"y": "z"}]}] * (n % 3 + 1)}) for n in range(60)]
    lines = numbered([record.encode() for record in records])
    _, is_plain = cut_plain(
        {name: lines[name].combine_chunks() for name in lines.column_names}, (None,), stream
    )
    assert is_plain.all()


def test_a_record_of_too_many_items_is_one_rejected_record() -> None:
    stream = stream_of("ndjson", {"v": {"path": "l.v"}}, source={"explode": "l"})
    lists = ["{}," * count + "{}" for count in (99_999, 100_000)]
    found = Parser.of(stream, (None,)).parse(
        numbered([f'{{"ts": {T0}, "l": [{each}]}}'.encode() for each in lists])
    )
    assert found.num_rows == 100_001
    assert found["detail"][-1].as_py() == "the list at l has 100001 items; expected at most 100000"


def test_records_are_taken_apart_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_shapes, "_BYTES", 500)
    stream = stream_of(
        "ndjson", {"v": {"path": "l.v", "type": "int"}, "o": "string"}, source={"explode": "l"}
    )
    flat = stream_of("ndjson", {"o": "string"})
    records = [
        json.dumps({"o": f"o{n}", "l": [{"v": n + m} for m in range(n % 4)], "ts": T0}) for n in range(99)
    ]
    broken = [
        '{"l": [{"v": 1}',
        '{"l": [{"v": 1}}, "ts": 1}',
        '"l": [',
        '{"l": 1}]',
        '{"o": "}]", "l": [{"v": 3}], "ts": 1600000000}',
    ]
    texts = [*records[:50], *broken, *records[50:], '{"o": "\u00fc", "l": [{"v": 7}, {}], "ts": 1600000000}']

    found = rows([text.encode() for text in texts], stream)

    good = [
        (row["source_line"], row["source_item"], row["v"], row["o"]) for row in found if row["reason"] is None
    ]
    numbers = [*range(50), *[-1] * len(broken), *range(50, 99)]
    expected = [(at, m, n + m, f"o{n}") for at, n in enumerate(numbers) if n >= 0 for m in range(n % 4)]
    expected += [(54, 0, 3, "}]"), (104, 0, 7, "\u00fc"), (104, 1, None, "\u00fc")]
    assert good == sorted(expected)
    assert [row["o"] for row in rows([text.encode() for text in records], flat)] == [
        f"o{n}" for n in range(99)
    ]


def test_fields_in_quotes_end_with_their_quotes() -> None:
    stream = declared("csv", "s")
    usual = f'{T0}|{T0}|"abc"|1|"2.5"|1.25|true|'
    good = {'""': None, '"a""b"': 'a"b', '"a,b"': "a,b", 'a"b': 'a"b', ' "a" ': "a", '"""a"""': '"a"'}
    bad = ['"a"b', '"abc', '"', '"a""', '"a" "b"']
    texts = [usual.replace('"abc"', text).replace("|", ",") for text in (*good, *bad)]

    found = rows([text.encode() for text in texts], stream, KEYS)

    assert [row["text"] for row in found[: len(good)]] == list(good.values())
    assert [row["reason"] for row in found] == [None] * len(good) + ["malformed"] * len(bad)
    assert (
        found[-1]["detail"]
        == "expected 8 fields, as in line 1 of f, found quotes that do not end with their field"
    )


def test_messages_of_the_bridge_are_read_inside_and_around_their_payload() -> None:
    columns = {"room": {"path": "$topic.1"}, "temp": {"path": "data.temp", "type": "double"}}
    columns |= {"kept": {"path": "$retain", "type": "boolean"}, "said": {"path": "$payload"}}
    source = {"kind": "mqtt", "broker": "mqtt://localhost", "topics": ["air/#"], "path": "x"}
    arrival = {"column": "$received", "unit": "us"}
    stream = stream_of("ndjson", columns, source=source, arrival_time=arrival, identity=["*"])
    payloads = [
        {"ts": T0, "data": {"temp": 20.5}},
        {"ts": T0, "data": {"temp": 20.5, "where": 'K\u00fcche \\ "'}},
    ]
    lines = [Message("air/hall", json.dumps(each).encode(), T0 * US).to_line().strip() for each in payloads]
    lines += [
        Message("air", b"\xff", 1).to_line().strip(),
        Message("air", b"21.5", 1).to_line().strip(),
        b"{}",
    ]

    found = rows([*lines, lines[0].replace(b'"mid": 0', b'"mid": 9')], stream)

    assert [row["reason"] for row in found] == [None, None, "malformed", "malformed", "malformed", None]
    assert "as the payload" in found[2]["detail"] and "as the bridge writes it" in found[4]["detail"]
    for row, payload in zip(found[:2], payloads, strict=True):
        assert (row["room"], row["temp"], row["kept"], row["arrival_us"]) == ("hall", 20.5, False, T0 * US)
        assert json.loads(row["said"]) == payload
    assert found[0]["record_hash"] == found[5]["record_hash"] != found[1]["record_hash"]


def test_records_are_told_apart_by_a_hash_of_which_nobody_makes_collisions() -> None:
    """Two records of one MD5 are made in a second."""
    record = f'{{"ts": {T0}, "room": "hall"}}'.encode()
    [found] = rows([record], stream_of("ndjson", {"room": {}}, identity=["*"]))
    assert found["record_hash"] == blake2b(record, digest_size=16).digest()


def test_a_message_is_the_same_however_it_is_spelled() -> None:
    source = {"kind": "mqtt", "broker": "mqtt://localhost", "topics": ["air/#"], "path": "x"}
    event = {"column": "$received", "unit": "us"}
    stream = stream_of("ndjson", {"v": {"path": "$payload"}}, source=source, event_time=event, identity=["*"])
    for payload in ('{"a": "\u00fc"}', "a\\b", "", '"', "a/b\n", "\u2028"):
        line = Message("air/hall", payload.encode(), T0 * US).to_line().strip()
        message = json.loads(line)
        others = [json.dumps(message), json.dumps(message | {"mid": 3}, separators=(",", ":"))]
        others.append(json.dumps(dict(reversed(message.items()))).replace("hall", "h\\u0061ll"))
        found = rows([line, *(other.encode() for other in others)], stream)
        assert len({row["record_hash"] for row in found}) == 1, payload
        assert {row["v"] for row in found} == {payload.strip(" \t")}


def test_plain_records_of_every_preset_are_cut_as_one_by_one_whatever_is_wrong_with_others() -> None:
    pick = random.Random(7)
    added = [*ADDED, b'{"a":1}', b"[{}]", b'"rxInfo":[', b"}]", b"]}", b'\\"', b'":', b"null", b"  "]
    for name, kind in kinds().items():
        stream = sources_of_presets.declared(kind)
        records = [kind.record(number) for number in range(40)]
        for _ in range(80):
            record = pick.choice(records[:40])
            for _ in range(pick.choice([1, 1, 2, 3])):
                at = pick.randrange(len(record) + 1)
                record = record[:at] + pick.choice(added) + record[at + pick.choice([0, 0, 1, 5, 30]) :]
            records.append(record)
        lines = numbered(records)
        columns = {name: lines[name].combine_chunks() for name in lines.column_names}
        if stream.source.format in SPELT:
            columns = as_objects(columns, stream.source.format)
        found, is_plain = cut_plain(columns, (kind.layout,), stream)
        reader = RecordTexts(stream, (kind.layout,), {})
        one_by_one = [reader.rows(line) for line in pa.table(columns).to_pylist()]
        for place, item, row in zip(
            found.places.tolist(), found.items.tolist(), pa.table(found.texts).to_pylist(), strict=True
        ):
            assert trimmed(row) == trimmed(one_by_one[place][item]), (name, records[place])
        rows_of = Counter(found.places.tolist())
        assert all(len(one_by_one[place]) == count for place, count in rows_of.items()), name
        assert is_plain[:40].all() == (name not in ("ndjson_escaped", "home_assistant")), name


def trimmed(row: Texts | Rejected) -> Texts:
    """Return texts without the blanks around them, which do not count."""
    assert not isinstance(row, Rejected)
    return {name: None if text is None else text.strip(" \t") for name, text in row.items()}


def test_what_stands_beside_the_value_of_a_message_is_a_text_of_its_row() -> None:
    paths = ("$key", "$timestamp", "$topic", "$partition", "$offset", "$headers.trace")
    columns: dict[str, Any] = {path.strip("$").replace(".", "_"): {"path": path} for path in paths}
    source = {"kind": "kafka", "servers": ["s:1"], "topics": ["t"], "path": "x"}
    stream = stream_of("ndjson", columns, source=source)
    headers = [
        {"key": "trace", "value": b"1"},
        {"key": "x", "value": b"y"},
        {"key": "trace", "value": b" 2 "},
    ]
    messages = [
        {"key": b"k", "timestamp_ms": T0 * 1000, "headers": headers},
        {"key": None, "timestamp_ms": None, "headers": None},
        {"key": b"\xff", "timestamp_ms": T0 * 1000, "headers": []},
    ]
    lines = numbered([b'{"ts": 1600000000}'] * 3, message=pa.array(messages))
    lines = lines.set_column(0, "source_file", pa.array(["kafka:t/3"] * 3))

    found = Parser.of(stream, (None,)).parse(lines).to_pylist()

    assert [row["reason"] for row in found] == [None, None, "bad_utf8"]
    told = ("key", "timestamp", "topic", "partition", "offset", "headers_trace")
    assert [found[0][name] for name in told] == ["k", f"{T0}000", "t", "3", "0", "2"]
    assert [found[1][name] for name in told] == [None, None, "t", "3", "1", None]
    assert found[2]["message"]["key"] == b"\xff" and found[0]["message"] is None


def test_records_that_are_put_through_again_are_judged_as_of_when_they_came() -> None:
    stream = stream_of("ndjson", {"v": "int"})
    lines = numbered(
        [b'{"ts": 1600000000, "v": 1}'] * 3,
        listed_us=pa.array([T0 * US, (T0 - 90_000) * US, None], pa.int64()),
        items=pa.array([[0], [0], [1]], pa.list_(pa.int32())),
    )
    found = Parser.of(stream, (None,)).parse(lines).to_pylist()
    assert [(row["source_line"], row["reason"]) for row in found] == [(0, None), (1, "clock")]
    assert found[1]["detail"].startswith("event time is 1d1h ahead of when its record was listed")
