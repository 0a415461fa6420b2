"""Records of XML documents as lines of JSON, and documents that are refused."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.ingest.forms.xml_records import XmlRecords

TRACK = ("gpx", "trk", "trkseg", "trkpt")
GPX = """<?xml version="1.0" encoding="UTF-8"?>
<gpx creator="x" xmlns="http://www.topografix.com/GPX/1/1"><metadata><name>m</name></metadata><wpt lat="1"/>
<trk><name>A</name><trkseg><trkpt lat="48.1"><ele>5</ele><hr>80</hr><hr>81</hr></trkpt></trkseg></trk>
<trk><name>B &amp; C</name><trkseg><trkpt lat="-2"><n:ele xmlns:n="q" unit="m"><![CDATA[6]]></n:ele></trkpt>
</trkseg></trk></gpx>
"""
LETTERS = st.text(st.characters(codec="utf-8", min_codepoint=33, exclude_characters="\x7f\x85\ufffe\uffff"))


def read(
    content: bytes, path: tuple[str, ...] = TRACK, step: int = 1 << 20, longest: int = 1000
) -> tuple[list[Any], str]:
    records = XmlRecords(path, longest)
    lines = b"".join(records.lines(content[at : at + step]) for at in range(0, len(content), step))
    return [json.loads(line) for line in lines.splitlines()], records.close()


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_records_have_what_stands_around_them_however_the_document_is_cut(step: int) -> None:
    around = {"gpx": {"creator": "x", "wpt": {"lat": "1"}}, "trkseg": {}}

    found, fault = read(GPX.encode(), step=step)

    assert fault == ""
    first, second = found
    assert first == around | {"trk": {"name": "A"}, "lat": "48.1", "ele": "5", "hr": ["80", "81"]}
    assert second["trk"] == {"name": "B & C"} and second["ele"] == {"unit": "m", "text": "6"}


@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), LETTERS, max_size=3), min_size=1, max_size=5),
    st.booleans(),
)
def test_any_texts_read_back_as_attributes_or_as_elements(
    rows: list[dict[str, str]], are_attributes: bool
) -> None:
    if are_attributes:
        inside = (
            f"<r {' '.join(f'{name}={quoteattr(text)}' for name, text in row.items())}/>" for row in rows
        )
    else:
        elements = ("".join(f"<{name}>{escape(text)}</{name}>" for name, text in row.items()) for row in rows)
        inside = (f"<r>{each}</r>" for each in elements)

    found, fault = read(f"<d>{''.join(inside)}</d>".encode(), ("d", "r"))

    assert fault == ""
    assert found == [{"d": {}} | (row or {"r": ""}) for row in rows]


PLAIN = ["<r k='1'/>", '<r k="1" j="2>1" ><b> 5\n</b ><c/></r>', "<n:r><q:b>x y</q:b></n:r>"]
PLAIN += ["<r><b> <c>1</c>\n<q:g> 2 3 </q:g><e/></b><f>4</f></r>", "<r k='1'><b><b>1</b></b></r>"]
# As many letters of JSON as so few of XML can make.
PLAIN.append(
    f"<r>{''.join(f'<{name}/>' for name in 'bcefghijklmnopqstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ')}</r>"
)
OTHER = [
    *("<r>t</r>", "<r/>", "<r k='&lt;é'/>", "<r><b>1</b><b>2</b></r>", "<r k='1'><k>1</k></r>", "<r a='1'/>"),
    *("<r><b c='1'/></r>", "<r><r k='1'/></r>", "<r><b>]]></b></r>", "<r k='1'", "<r xmlns='q' k='1'/>"),
    *(
        "<r><b><c>1</c>t</b></r>",
        "<r><b>t<c>1</c></b></r>",
        "<r><b><c>1</c><c>2</c></b></r>",
        "<r><b><c k='1'/></b></r>",
    ),
    *(
        "<r><b><c><d>1</d></c></b></r>",
        "<r><b><c>1</c></b><b>2</b></r>",
        "<r><b><r>1</r></b></r>",
        "<r><b><c>1</b></r>",
    ),
]
AROUND = [
    "",
    "\n ",
    "t",
    "<!-- <r k='0'/> -->",
    "<![CDATA[<r k='0'/>]]>",
    "<?p <r k='0'/>?>",
    "<w><r k='0'/></w>",
]


@given(
    st.lists(
        st.tuples(st.sampled_from(PLAIN * 3 + OTHER), st.sampled_from(AROUND * 2 + [""] * 9)), max_size=12
    ),
    st.integers(1, 200),
)
def test_plain_records_are_read_as_all_others_with_faults_in_their_places(
    parts: list[tuple[str, str]], step: int
) -> None:
    content = f"<d><a z='1'>{''.join(map(''.join, parts))}</a></d>".encode()
    by_element = XmlRecords(("d", "a", "r"), 1000)
    by_element._plain = None

    found, fault = read(content, ("d", "a", "r"), step)

    expected = [json.loads(line) for line in by_element.lines(content).splitlines()]
    assert (found, fault) == (expected, by_element.close())


BEGUN = b"<gpx><trk><trkseg><trkpt>"
BOMB = b'<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><gpx>&b;</gpx>'
OUTSIDE = b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><gpx>&x;</gpx>'


@pytest.mark.parametrize(
    ("content", "reason", "detail"),
    [
        (BOMB, "malformed", "a document type"),
        (OUTSIDE, "malformed", "a document type"),
        (b'<!DOCTYPE gpx SYSTEM "http://localhost/a.dtd"><gpx/>', "malformed", "a document type"),
        (BEGUN + b"&x;", "malformed", "undefined entity"),
        (BEGUN + b"<a>" * 300, "malformed", "more than 200 elements"),
        (b"<gpx>" + b"".join(b"<a%d/>" % n for n in range(10_001)), "malformed", "10000 names"),
        (BEGUN + b'<a b="' + b"x" * 300_000, "malformed", "a tag of more than 1000 bytes"),
        (b'<?xml version="1.0" encoding="x"?><gpx/>', "malformed", "unknown encoding"),
        (BEGUN + b"x" * 2000, "malformed", "a record of more than 1000 letters"),
        (BEGUN + b"<a/>" * 2000, "malformed", "a record of more than 1000 letters"),
        (b"<gpx><wpt>" + b"x" * 2000, "malformed", "a record of more than 1000 letters"),
        (BEGUN + b"</gpx>", "malformed", "mismatched tag"),
        (BEGUN, "truncated_file", "no element found"),
        (b"<gpx/>", "malformed", "no element at 'gpx.trk.trkseg.trkpt'"),
    ],
)
def test_a_document_that_is_wrong_or_hostile_is_refused_with_its_reason(
    content: bytes, reason: str, detail: str
) -> None:
    found, fault = read(content, step=1000)

    assert found == []
    assert fault.startswith(f"{reason}: the XML document") and detail in fault


def test_records_before_a_fault_are_kept_and_a_large_document_needs_the_memory_of_one() -> None:
    records, point = (
        XmlRecords(TRACK, 1000),
        b'<trkpt lat="1"><ele>5</ele></trkpt><wpt><name>w</name></wpt>' * 500,
    )
    records.lines(BEGUN.removesuffix(b"<trkpt>"))
    records.lines(point)

    tracemalloc.start()
    found = sum(records.lines(point).count(b"\n") for _ in range(20))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found == 10_000 and peak < 1_000_000
    assert records.lines(point + b"&x;").count(b"\n") == 500 and "undefined entity" in records.close()
