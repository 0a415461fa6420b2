"""Rules about values say of any rows what DuckDB says of them, for every expectation that is offered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.profile.summary import Summary
from lakehouse.checks.column_figures import judged_figures, summary_of
from lakehouse.config.rules import EXPECTATIONS, Rule
from lakehouse.ingest.parser.row_rules import broken, verdicts

Given = dict[str, Any]
# Types of the columns a, b and c; s and t are texts, f and g truths.
KINDS: Mapping[str, pa.DataType] = {
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "DECIMAL(12,1)": pa.decimal128(12, 1),
}
NUMBERS, TEXTS = st.integers(-4, 4), st.sampled_from(["", "a", "ab", "aab", "b", "ba", "äb", "a%", "_"])
ROW = st.fixed_dictionaries(
    {name: st.none() | NUMBERS for name in "abc"} | {name: st.none() | TEXTS for name in "st"}
)
LIMITS = st.none() | st.integers(-4, 4) | st.sampled_from([-1.5, 0.25, 2.5])
RANGE = st.fixed_dictionaries(
    {"min_value": LIMITS, "max_value": LIMITS, "strict_min": st.booleans(), "strict_max": st.booleans()}
).filter(lambda ends: not ends["min_value"] is ends["max_value"] is None)
PATTERNS = st.sampled_from(["^a", "b$", "^$", "a+b", "[äb]", "."])
LIKE = st.sampled_from(["a%", "%b", "_", "%", "a_b", ""])
PAIR = {"column_A": st.just("a"), "column_B": st.just("b")}
SEVERAL = {"column_list": st.just(("a", "b", "c"))}
IGNORED = {
    "column_A": st.sampled_from(["", "both_values_are_missing", "either_value_is_missing", "neither"]),
    "column_list": st.sampled_from(["", "all_values_are_missing", "any_value_is_missing", "never"]),
}
# Values of the keys of a rule, as they are drawn.
KEYS: Mapping[str, st.SearchStrategy[Any]] = {
    "value_set": st.lists(NUMBERS, min_size=1, max_size=3).map(tuple),
    "value_pairs_set": st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=3).map(tuple),
    "regex": PATTERNS,
    "regex_list": st.lists(PATTERNS, min_size=1, max_size=3).map(tuple),
    "match_on": st.sampled_from(["any", "all"]),
    "like_pattern": LIKE,
    "value": st.integers(0, 4),
    "or_equal": st.booleans(),
    "sum_total": st.integers(-4, 4) | st.just(0.5),
}


@st.composite
def rules(draw: st.DrawFn, expect: str) -> Rule:
    """Draw a rule of an expectation with any of its keys."""
    needs = EXPECTATIONS[expect]
    own: Given = {"column": draw(st.sampled_from("st" if needs.type == "string" else "a"))}
    if needs.columns != ("column",):
        own = {key: draw(each) for key, each in (PAIR | SEVERAL).items() if key in needs.columns}
    if "min_value" in needs.may:
        own |= draw(RANGE)
    if "quantile_ranges" in needs.needs:
        ends = st.tuples(LIMITS, LIMITS)
        shares = draw(st.lists(st.sampled_from([0, 0.1, 0.25, 0.5, 0.9, 1]), min_size=1, max_size=3))
        ranges = draw(st.lists(ends, min_size=len(shares), max_size=len(shares)))
        own["quantile_ranges"] = {"quantiles": shares, "value_ranges": ranges}
    own |= {key: draw(KEYS[key]) for key in (*needs.needs, *needs.may) if key in KEYS}
    if "ignore_row_if" in needs.may:
        own["ignore_row_if"] = draw(IGNORED[needs.columns[0]])
    return Rule(expect=expect, **own)


def between(value: str, rule: Rule) -> str:
    """Return SQL for whether a value is in the range of a rule."""
    ends = (
        (rule.min_value, ">" if rule.strict_min else ">="),
        (rule.max_value, "<" if rule.strict_max else "<="),
    )
    return "(" + " AND ".join(f"{value} {how} {end}" for end, how in ends if end is not None) + ")"


def matching(rule: Rule, how: str) -> str:
    return f" {how} ".join(f"regexp_matches({rule.column}, '{each}')" for each in rule.regex_list)


def judged(rule: Rule, holds: str, missing: tuple[str, str, str]) -> str:
    """Return SQL for whether a row of several columns holds; null where the rule leaves it out."""
    nulls = [f"{name} IS NULL" for name in rule.columns]
    every, some, _ = missing
    joined = {every: " AND ".join(nulls), some: " OR ".join(nulls)}.get(rule.ignored, "false")
    return f"CASE WHEN {joined} THEN NULL ELSE coalesce({holds}, false) END"


BOTH = ("both_values_are_missing", "either_value_is_missing", "neither")
ALL = ("all_values_are_missing", "any_value_is_missing", "never")
# By expectation, SQL for whether a row holds; null where the rule does not judge it.
ROWS: Mapping[str, Callable[[Rule], str]] = {
    "column_values_to_be_between": lambda of: between("a", of),
    "column_values_to_not_be_null": lambda of: f"{of.column} IS NOT NULL",
    "column_values_to_be_null": lambda of: f"{of.column} IS NULL",
    "column_values_to_be_in_set": lambda of: f"a IN ({', '.join(map(str, of.value_set))})",
    "column_values_to_not_be_in_set": lambda of: f"a NOT IN ({', '.join(map(str, of.value_set))})",
    "column_values_to_match_regex": lambda of: f"regexp_matches({of.column}, '{of.regex}')",
    "column_values_to_not_match_regex": lambda of: f"NOT regexp_matches({of.column}, '{of.regex}')",
    "column_values_to_match_regex_list": lambda of: matching(of, "AND" if of.match_on == "all" else "OR"),
    "column_values_to_not_match_regex_list": lambda of: f"NOT ({matching(of, 'OR')})",
    "column_values_to_match_like_pattern": lambda of: f"{of.column} LIKE '{of.like_pattern}'",
    "column_values_to_not_match_like_pattern": lambda of: f"{of.column} NOT LIKE '{of.like_pattern}'",
    "column_value_lengths_to_be_between": lambda of: between(f"length({of.column})", of),
    "column_value_lengths_to_equal": lambda of: f"length({of.column}) = {of.value}",
    "column_pair_values_a_to_be_greater_than_b": lambda of: judged(
        of, f"a {'>=' if of.or_equal else '>'} b", BOTH
    ),
    "column_pair_values_to_be_equal": lambda of: judged(of, "a = b", BOTH),
    "column_pair_values_to_be_in_set": lambda of: judged(
        of, " OR ".join(f"(a = {one} AND b = {other})" for one, other in of.value_pairs_set), BOTH
    ),
    "multicolumn_sum_to_equal": lambda of: judged(of, f"a + b + c = {of.sum_total}", ALL),
    "select_column_values_to_be_unique_within_record": lambda of: judged(
        of, "a IS DISTINCT FROM b AND b IS DISTINCT FROM c AND a IS DISTINCT FROM c", ALL
    ),
}
# By expectation, SQL for the figure of all rows.
FIGURES = {
    "column_min_to_be_between": "min(a)::DOUBLE",
    "column_max_to_be_between": "max(a)::DOUBLE",
    "column_mean_to_be_between": "avg(a)::DOUBLE",
    "column_median_to_be_between": "median(a)::DOUBLE",
    "column_sum_to_be_between": "sum(a)::DOUBLE",
    "column_stdev_to_be_between": "stddev_samp(a)",
    "column_unique_value_count_to_be_between": "count(DISTINCT a)",
    "column_proportion_of_unique_values_to_be_between": "count(DISTINCT a) / nullif(count(a), 0)",
    "column_proportion_of_non_null_values_to_be_between": "count(a) / nullif(count(*), 0)",
    "table_row_count_to_be_between": "count(*)",
    "table_row_count_to_equal": "count(*)",
}
QUANTILES = "column_quantile_values_to_be_between"


def table_of(rows: list[Given], kind: str) -> pa.Table:
    """Return rows as raw has them."""
    numbers = {
        name: pa.array(
            [None if row[name] is None else Decimal(row[name]) for row in rows], pa.decimal128(12, 1)
        )
        for name in "abc"
    }
    texts = {name: pa.array([row[name] for row in rows], pa.string()) for name in "st"}
    return pa.table({name: each.cast(KINDS[kind]) for name, each in numbers.items()} | texts)


def by_sql(table: pa.Table, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.register("given", table.append_column("n", pa.array(range(len(table)), pa.int64())))
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("expect", ROWS)
@given(data=st.data(), rows=st.lists(ROW, max_size=8), kind=st.sampled_from([*KINDS]))
def test_rows_that_are_judged_and_break_a_rule_are_those_that_duckdb_finds(
    expect: str, data: st.DataObject, rows: list[Given], kind: str
) -> None:
    rule, table = data.draw(rules(expect)), table_of(rows, kind)

    expected = [row[0] for row in by_sql(table, f"SELECT NOT ({ROWS[expect](rule)}) FROM given ORDER BY n")]

    assert verdicts(table, rule).to_pylist() == expected
    assert broken(table, rule).to_pylist() == [bool(breaks) for breaks in expected]


@pytest.mark.parametrize("expect", [*FIGURES, QUANTILES])
@given(data=st.data(), rows=st.lists(ROW, max_size=8), kind=st.sampled_from([*KINDS]), cut=st.integers(0, 8))
def test_figures_of_all_rows_hold_where_duckdb_says_so_in_any_two_parts(
    expect: str, data: st.DataObject, rows: list[Given], kind: str, cut: int
) -> None:
    rule, table = data.draw(rules(expect)), table_of(rows, kind)
    if rule.quantile_ranges is None:
        value = FIGURES[expect]
        holds = [f"{value} = {rule.value}" if rule.value is not None else between(value, rule)]
    else:
        pairs = zip(rule.quantile_ranges.quantiles, rule.quantile_ranges.value_ranges, strict=True)
        at = "list(a::DOUBLE ORDER BY a)[1 + round_even({} * (count(a) - 1), 0)::INT]"
        holds = [
            f"{at.format(share)} {how} {end}"
            for share, ends in pairs
            for how, end in zip((">=", "<="), ends, strict=True)
            if end is not None
        ]
    ((expected, _),) = by_sql(
        table, f"SELECT coalesce({' AND '.join(holds) or 'true'}, true), count(*) FROM given"
    )

    parts = [summary_of(table[rule.columns[0] if rule.columns else "a"][place]) for place in _cuts(cut)]
    assert (judged_figures(rule, Summary.combined(parts))[0] == 0) == expected


def _cuts(at: int) -> tuple[slice, slice]:
    return slice(0, at), slice(at, None)


def test_every_expectation_that_is_offered_is_compared() -> None:
    assert EXPECTATIONS.keys() == {*ROWS, *FIGURES, QUANTILES}
