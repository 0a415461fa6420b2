"""The exact answer, read from the raw rows of a published stream while they are kept.

Their files, by the table's log, are read by a separate connection, which never runs a statement of anybody else. Names
of columns come from the published catalogue; values are quoted.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from lakehouse.algorithms.rollup.rounding import QUOTIENT_ROUNDING, SUM_ROUNDING
from lakehouse.config.durations import iso_timestamp
from lakehouse.serving.ask.doubt import doubts
from lakehouse.serving.ask.ladder import chosen_grouping, ladder_of
from lakehouse.serving.ask.macros import answer
from lakehouse.serving.ask.question import INCREASE, Answer, AskError, Question, order
from lakehouse.serving.literals import name, parquet, text
from lakehouse.serving.publish.macros import macros_of
from lakehouse.serving.sandbox.locked import MEMORY_LIMIT
from lakehouse.serving.sandbox.sandbox import PublishedReader
from lakehouse.serving.table_reader import connected
from lakehouse.storage.corrections import TAKEN_OUT, raw_from, read_corrections
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import files_between, newest_version
from lakehouse.storage.tables.table_reads import named_columns


def exact_answers(reader: PublishedReader, question: Question) -> list[Answer]:
    """Answer a checked question from raw rows of the batches that the version contains.

    Raises AskError if raw rows are deleted and the nodes alone do not give an exact answer.
    """
    limit, question = question.limit, replace(question, limit=None)
    corrections = read_corrections(reader.home, question.stream)
    if answered := _from_nodes(reader, question, raw_from(corrections)):
        return answered[:limit]
    published, stream = reader.connection, text(question.stream)
    row = published.execute(
        f"SELECT raw_path, batch, confirmed_us - latest_us FROM streams WHERE stream = {stream}"
    ).fetchone()
    path, batch, final_before = row or ("", 0, None)
    path = reader.home.tables / path
    table = scanned(path, question.start_us)
    if table is None:
        raise AskError(
            f"exact needs the raw rows of {question.stream}, and there are none at {path}; "
            "without exact the answer comes with its interval"
        )
    counted = replace(question, aggregate="count")
    estimates = {_values(found): found for found in answer(published, counted)}
    measure, chosen = _measure(published, question), chosen_grouping(published, counted)
    with raw_rows(reader) as raw:
        rows = _aggregates(raw, question, table, batch, measure)
    grouping = list(chosen.names) if chosen else []
    final = final_before is not None and question.end_us <= final_before
    answers = [_answer(question, row, reader.version, grouping, final) for row in rows]
    retracted = any(found.kind in TAKEN_OUT for found in corrections)
    _check_complete(question, answers, estimates, retracted)
    return sorted(answers, key=order)[:limit]


def scanned(raw: Location, from_us: int) -> str | None:
    """Return raw rows from a time on as a table of DuckDB, perhaps with earlier ones; None if there are none."""
    # Any file shows the columns.
    files = files_between(raw, ("event_us", from_us, None)) or files_between(raw, None)
    if files or newest_version(raw) is None:
        return parquet(files) if files else None
    # All of its rows were taken out.
    with duckdb.connect() as connection:
        none = connection.from_arrow(named_columns(raw).empty_table())
        columns = [
            f"NULL::{kind} AS {name(column)}" for column, kind in zip(none.columns, none.types, strict=True)
        ]
    return f"(SELECT {', '.join(columns)} WHERE false)"


def _from_nodes(reader: PublishedReader, question: Question, kept_us: int | None) -> list[Answer]:
    """Answer from nodes if raw rows of the range were deleted for their age; nothing if none were.

    Raises AskError if the nodes give no exact answer, or some of its rows are in doubt.
    """
    row = reader.connection.execute(
        f"SELECT earliest_us FROM streams WHERE stream = {text(question.stream)}"
    ).fetchone()
    earliest = row[0] if row and row[0] is not None else question.end_us
    is_gone = kept_us is not None and max(question.start_us, earliest) < min(question.end_us, kept_us)
    ladder = ladder_of(reader.connection, question)
    if not is_gone and not (ladder and ladder.in_doubt(question.start_us, question.end_us)):
        return []
    answers = answer(reader.connection, question)
    if because := doubts(reader.connection, question, answers):
        raise AskError(f"no answer over this range is exact, ask without exact: {'; '.join(because)}")
    if is_gone and not all(found.exact for found in answers):
        kept = iso_timestamp(kept_us or 0)
        raise AskError(
            f"exact needs the raw rows of the range, and {question.stream} keeps those from {kept} on: ask "
            "from there on, or on edges of nodes; without exact the answer comes with its interval"
        )
    return answers if is_gone else []


@contextmanager
def raw_rows(reader: PublishedReader) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection that reads raw rows with the memory limit of a version, and is interrupted with the reader.

    Raises AskError if the question does not fit in memory.
    """
    try:
        with reader.reads_raw(_raw_connection(reader.home.tables)) as raw:
            yield raw
    except duckdb.OutOfMemoryException:
        raise AskError(
            f"the raw rows of the range need more than the {MEMORY_LIMIT} of memory that a question may have: narrow "
            "the range, name some keys in where, or ask by fewer; without exact the answer comes with its interval"
        ) from None


def _raw_connection(tables: Location) -> duckdb.DuckDBPyConnection:
    connection = connected(
        tables,
        {
            "autoinstall_known_extensions": False,
            "threads": 2,
            "memory_limit": MEMORY_LIMIT,
            # Nothing is written beside the home, or in the folder in which the command was started.
            "temp_directory": "",
        },
    )
    connection.execute(macros_of("exact_values"))
    connection.execute("SET lock_configuration = true")
    return connection


@dataclass(frozen=True)
class _StoredMeasure:
    """Storage of a measure: its digits, whether it is a counter, and the keys that identify a meter."""

    decimals: int | None
    is_counter: bool
    meter: list[str]


def _measure(published: duckdb.DuckDBPyConnection, question: Question) -> _StoredMeasure:
    row = published.execute(
        "SELECT decimals, is_counter, key_names FROM measures JOIN streams USING (stream) "
        f"WHERE stream = {text(question.stream)} AND measure = {text(question.measure)}"
    ).fetchone()
    return _StoredMeasure(*(row or (None, False, [])))


def _aggregates(
    raw: duckdb.DuckDBPyConnection, question: Question, table: str, batch: int, measure: _StoredMeasure
) -> list[tuple[Any, ...]]:
    by = ", ".join(f"CAST({name(key)} AS VARCHAR)" for key in question.by)
    where = [
        f"AND CAST({name(key)} AS VARCHAR) IS NOT DISTINCT FROM {text(value)}"
        for key, value in question.where.items()
    ]
    rows = f"""
        SELECT *, {_value(question.measure, measure)} AS value__ FROM {table}
        WHERE event_us >= {question.start_us} AND event_us < {question.end_us} AND batch <= {batch} {" ".join(where)}
    """
    if question.aggregate == INCREASE:
        meter = ", ".join(["1", *(name(key) for key in measure.meter)])
        order = f"PARTITION BY {meter} ORDER BY event_us, value__"
        rows = f"SELECT *, lag(value__) OVER ({order}) AS before__ FROM ({rows}) WHERE value__ IS NOT NULL"
    return raw.execute(
        f"""
        SELECT [{by}]::VARCHAR[] AS key_values, {_columns(question, measure)}
        FROM ({rows}) {"GROUP BY key_values" if by else ""}
        """
    ).fetchall()


def _value(column: str, measure: _StoredMeasure) -> str:
    """Return the usable values: values that are not finite are missing, and so are those below zero of a counter."""
    if column == "*":
        return "NULL"
    value = name(column)
    condition = f"isfinite({value})"
    if measure.decimals is not None:
        value = f"CAST({value} AS DECIMAL(38, {measure.decimals}))"
        condition = f"{value} IS NOT NULL"
    return f"CASE WHEN {condition} {f'AND {value} >= 0' if measure.is_counter else ''} THEN {value} END"


def _columns(question: Question, measure: _StoredMeasure) -> str:
    """Return the columns of ``_answer``: how many values, the value, its sides, and all digits of it."""
    if question.aggregate == "count":
        n = "count(*)" if question.measure == "*" else "count(value__)"
        return f"{n} AS n, {n}::DOUBLE, {n}::DOUBLE, {n}::DOUBLE, {n}::VARCHAR"
    folded = {
        "min": "min(value__)",
        "max": "max(value__)",
        INCREASE: (
            "CASE WHEN count(value__) > 0 THEN ifnull({adds}(CASE WHEN value__ >= before__ THEN value__ - before__ "
            "WHEN value__ < before__ THEN value__ END), 0) END"
        ),
    }.get(question.aggregate, "{adds}(value__)")
    if measure.decimals is not None:
        return _exact_columns(folded.format(adds="sum"), question.aggregate == "avg", measure.decimals)
    return _rounded_columns(folded.format(adds="fsum"), question.aggregate)


def _exact_columns(folded: str, is_mean: bool, decimals: int) -> str:
    """Return the columns of a measure with digits, by the macros that answer from nodes too (exact_values.sql)."""
    units = f"CAST(replace(CAST({folded} AS VARCHAR), '.', '') AS HUGEINT)"
    known = f"{units}, {'greatest(count(value__), 1)' if is_mean else '1'}, {decimals}"
    value = f"nearest_double({known})"
    low, high = (
        f"CASE WHEN is_held({known}, {value}) THEN {value} ELSE nextafter({value}, '{end}infinity'::DOUBLE) END"
        for end in ("-", "")
    )
    shown = "NULL::VARCHAR" if is_mean else f"decimal_text({units}, {decimals})"
    return f"count(value__) AS n, {value}, {low}, {high}, {shown}"


def _rounded_columns(folded: str, aggregate: str) -> str:
    """Return the columns of a measure of doubles, whose sums are rounded."""
    if aggregate in ("min", "max"):
        return f"count(value__) AS n, {folded}, {folded}, {folded}, NULL::VARCHAR"
    terms = "greatest(count(value__), 1)" if aggregate == "avg" else "1"
    sizes = folded if aggregate == INCREASE else "count(value__) * max(abs(value__))"
    value, quotient = f"({folded}) / {terms}", QUOTIENT_ROUNDING if aggregate == "avg" else 0.0
    bound = f"({SUM_ROUNDING!r} * {sizes} / {terms} + {quotient!r} * abs({value}))"
    return f"count(value__) AS n, {value}, {value} - {bound}, {value} + {bound}, NULL::VARCHAR"


def _answer(
    question: Question, row: tuple[Any, ...], version: int, grouping: list[str], final: bool
) -> Answer:
    key_values, n, value, low, high, shown = row
    key = dict(zip(question.by, key_values, strict=True))
    return Answer(value, low, high, True, shown, n, 0, None, version, key, grouping, final, n, n)


def _values(found: Answer) -> tuple[str | None, ...]:
    return tuple(found.key.values())


def _check_complete(
    question: Question, exact: list[Answer], estimates: dict[tuple[str | None, ...], Answer], retracted: bool
) -> None:
    """Refuse an incomplete count: raw rows deleted since the publish make it smaller than the rollups allow."""
    why = "; some were retracted, `tidemark run` publishes what is left" if retracted else ""
    counts = {_values(found): found.rows for found in exact}
    for key, estimate in estimates.items():
        if counts.get(key, 0) < estimate.rows_low:
            raise AskError(
                f"exact needs all raw rows of the range, and {question.stream} keeps only {counts.get(key, 0)} of at "
                f"least {estimate.rows_low}{why}; without exact the answer comes with its interval"
            )
