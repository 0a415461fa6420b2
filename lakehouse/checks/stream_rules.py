"""Rules that a stream declares, judged by the figures of its new rows -> a frame for each consequence.

A metric of the frame is one rule: the number of rows that break it beyond those that may, or how far a figure of all
new rows is outside of its range; 0 if it holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.profile.summary import Summary
from lakehouse.checks.column_figures import combined, judged_figures
from lakehouse.spark.deviations import REJECTIONS, WARNINGS, Counts, Frame
from lakehouse.storage.masks import form_of

if TYPE_CHECKING:
    from lakehouse.config.rules import Rule
    from lakehouse.config.rules.over_time import TimeRule
    from lakehouse.config.stream import Stream

# Before the name of a rule: how many rows it judges, and how many of them break it.
JUDGED, BROKEN = "judged_", "broken_"
# Examples of rows that break a rule, sources that are named, and those of each file that are counted.
EXAMPLES, SOURCES, _COUNTED = 3, 5, 100
_LONGEST = 40
# A share is a double: 0.001 of 1,000 rows is one row.
_ROUNDING = 1e-6
_TABLES = {"withhold": ("rules", "time_rules"), "warn": WARNINGS}
Row = dict[str, Any]


class Verdict(NamedTuple):
    """Distance of a rule from holding, 0 if it does, a sentence on what was seen, and the same in rows."""

    deviation: float
    seen: str
    counts: Counts | None = None


def rule_frames(stream: Stream, verdicts: Mapping[str, Verdict]) -> Iterator[Frame]:
    """Yield the frames of those of a stream's rules that have a verdict, by what follows where one does not hold."""
    of_table: dict[str, list[Rule | TimeRule]] = {}
    for rule in stream.rules:
        if rule.name in verdicts:
            of_table.setdefault(_table_of(rule), []).append(rule)
    for table, rules in of_table.items():
        own = {rule.name: verdicts[rule.name] for rule in rules}
        yield Frame(
            table,
            (),
            [{name: verdict.deviation for name, verdict in own.items()}],
            {rule.name: rule.sentence for rule in rules},
            {name: verdict.seen for name, verdict in own.items()},
            {name: verdict.counts for name, verdict in own.items() if verdict.counts},
        )


def _table_of(rule: Rule | TimeRule) -> str:
    """Return the table of a rule; rules that are judged although nothing is new have tables of their own."""
    of_now = getattr(rule, "is_of_now", False)
    return _TABLES[rule.on_failure][of_now]


def value_verdicts(stream: Stream, raw: Sequence[Row], files: Mapping[str, Row]) -> dict[str, Verdict]:
    """Return the verdicts of a stream's rules about values of new rows, by batch and by file; without any all hold."""
    return {
        rule.name: (_as_a_whole if rule.expectation.whole else _judged)(rule, raw, files)
        for rule in stream.checked_rules
    }


def rejections(stream: Stream, ledger: Sequence[Row]) -> Iterator[Frame]:
    """Yield how many records of new batches each rule has rejected, as its stream's ledger counts them."""
    received = sum(row["received"] or 0 for row in ledger)
    rejected = {
        rule.name: sum(row["reasons"].get(f"rule_{rule.name}", 0) for row in ledger)
        for rule in stream.row_rules
    }
    if rejected and ledger:
        says = {rule.name: rule.sentence for rule in stream.row_rules}
        seen = {
            name: f"{rows:,} of {received:,} new records were rejected" for name, rows in rejected.items()
        }
        counts = {name: Counts(received, rows) for name, rows in rejected.items()}
        yield Frame(REJECTIONS, (), [rejected], says, seen, counts)


def _counts(rule: Rule, raw: Sequence[Row], files: Mapping[str, Row]) -> Counts:
    judged, number = (sum(row[part + rule.name] for row in raw) for part in (JUDGED, BROKEN))
    sources = Counter[str]()
    for of in files.values():
        sources.update(of["sources"].get(rule.name, {}))
        # Of very many sources those with few rows are let go, so that a check of all files holds no more of them.
        sources = worst_of(sources) if len(sources) > _COUNTED**2 else sources
    return Counts(judged, number, sources.most_common(SOURCES))


def _as_a_whole(rule: Rule, raw: Sequence[Row], files: Mapping[str, Row]) -> Verdict:
    """Return how far a figure of all new rows is outside of its range, and a sentence on it."""
    if not raw:
        return Verdict(0.0, "no new row to judge")
    if not rule.columns:
        return Verdict(*judged_figures(rule, Summary(sum(row["found"] for row in raw))))
    parts = [of["columns"][rule.columns[0]] for of in files.values() if of["columns"]]
    return Verdict(*judged_figures(rule, combined(parts)))


def _judged(rule: Rule, raw: Sequence[Row], files: Mapping[str, Row]) -> Verdict:
    """Return how many rows break a rule beyond those that may, and a sentence on them."""
    counts = _counts(rule, raw, files)
    count, number = counts.judged, counts.broken
    allowed = int((1 - rule.mostly) * count + _ROUNDING)
    seen = f"{number:,} of {count:,} new rows do not"
    if number:
        seen += f" ({number / count:.2%}), such as "
        found = (example for of in files.values() for example in of["examples"].get(rule.name, ()))
        seen += "; ".join(islice(found, EXAMPLES))
    return Verdict(max(number - allowed, 0), seen, counts)


def examples_of(rows: pa.Table, values: Mapping[str, pa.ChunkedArray], breaks: pa.Array) -> list[str]:
    """Return some rows that break a rule: where they came from, and their values, of texts the form only."""
    places = pc.indices_nonzero(pc.fill_null(breaks, False))[:EXAMPLES]
    origin = rows.select(["source_file", "source_line"]).take(places).to_pylist()
    found = pa.table(dict(values)).take(places).to_pylist()
    return [
        f"{of['source_file']}:{of['source_line']}: "
        + ", ".join(f"{name} is {masked(value)}" for name, value in row.items())
        for of, row in zip(origin, found, strict=True)
    ]


def sources_of(rows: pa.Table, keys: Sequence[str], breaks: pa.Array) -> Counter[str]:
    """Return how many rows of each source break a rule, of those with most; a source is the values of its keys."""
    own = [name for name in keys if name in rows.column_names]
    if not own or not pc.any(breaks).as_py():
        return Counter()
    counted = (
        rows.select(own).filter(pc.fill_null(breaks, False)).group_by(own).aggregate([([], "count_all")])
    )
    worst = counted.take(pc.select_k_unstable(counted, _COUNTED, [("count_all", "descending")])).to_pylist()
    return Counter(
        {", ".join(f"{name} {_short(row[name])}" for name in own): row["count_all"] for row in worst}
    )


def worst_of(sources: Counter[str]) -> Counter[str]:
    """Return the sources with most rows, as many as are counted of a file."""
    return Counter(dict(sources.most_common(_COUNTED)))


def _short(value: object) -> str:
    text = "missing" if value is None else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def masked(value: object) -> str:
    """Return a value as a report may show it: of a text its form, not its letters and digits.

    >>> masked("dev-17"), masked(71.5), masked(None)
    ("'xxx-99'", '71.5', 'missing')
    """
    if not isinstance(value, str):
        return "missing" if value is None else str(value)
    return f"'{form_of(value, _LONGEST)}'"
