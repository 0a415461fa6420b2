"""The exact answer, read from the raw rows of a published stream while they are kept.

Needs DuckDB's Delta reader, which does its own input and output: so it runs on a connection of its own that never sees
a statement of anybody else. Names of columns come from the published catalogue, values are quoted.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb

from lakehouse.catalog.corrections import RETRACT, raw_from, read_corrections
from lakehouse.catalog.layout import Home
from lakehouse.catalog.moments import format_moment
from lakehouse.serving.ask import Answer, AskError, Question, answer, order
from lakehouse.serving.literals import name, text, texts
from lakehouse.serving.sandbox import PublishedReader


def exact_answers(reader: PublishedReader, question: Question) -> list[Answer]:
    """Answer a checked question from raw rows: those of the batches that the version contains.

    Raises:
        AskError: when the raw rows, or some of them, are no longer there and the nodes alone do not say it exactly.
    """
    corrections = read_corrections(Home(reader.home), question.stream)
    if answered := _from_nodes(reader, question, raw_from(corrections)):
        return answered
    published, stream = reader.connection, text(question.stream)
    facts = published.execute(
        f"SELECT raw_path, batch, newest_us - latest_us FROM streams WHERE stream = {stream}"
    ).fetchone()
    path, batch, final_before = facts or ("", 0, None)
    path = reader.home / path
    if not (path / "_delta_log").is_dir():
        raise AskError(
            f"exact needs the raw rows of {question.stream}, and there are none at {path}; "
            "without exact the answer comes with its interval"
        )
    estimates = {_values(found): found for found in answer(published, _counting(question))}
    decimals = published.execute(
        f"SELECT decimals FROM measures WHERE stream = {stream} AND measure = {text(question.measure)}"
    ).fetchone()
    with _connection() as raw:
        rows = _aggregates(raw, question, path, batch, decimals[0] if decimals else None)
    grouping = _grouping(published, question)
    final = final_before is not None and question.end_us <= final_before
    answers = [_answer(question, row, reader.version, grouping, final) for row in rows]
    retracted = any(found.kind == RETRACT for found in corrections)
    _check_complete(question, answers, estimates, retracted)
    return sorted(answers, key=order)


def _from_nodes(reader: PublishedReader, question: Question, kept_us: int | None) -> list[Answer]:
    """Answer from nodes where raw rows of the range were dropped for their age; nothing where none were."""
    row = reader.connection.execute(
        f"SELECT earliest_us FROM streams WHERE stream = {text(question.stream)}"
    ).fetchone()
    earliest = row[0] if row and row[0] is not None else question.end_us
    if kept_us is None or max(question.start_us, earliest) >= min(question.end_us, kept_us):
        return []
    answers = answer(reader.connection, question)
    if not all(found.exact for found in answers):
        moment = format_moment(kept_us)
        raise AskError(
            f"exact needs the raw rows of the range, and {question.stream} keeps those from {moment} on: ask "
            "from there on, or on edges of nodes; without exact the answer comes with its interval"
        )
    return answers


def _connection() -> duckdb.DuckDBPyConnection:
    spec = find_spec("duckdb_extension_delta")
    folder = Path((spec.submodule_search_locations or [""])[0]) if spec else Path()
    binary = folder / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    if not binary.is_file():
        raise AskError(f"exact needs DuckDB's Delta reader at {binary}; run `tidemark doctor`")
    connection = duckdb.connect(":memory:", config={"autoinstall_known_extensions": False, "threads": 2})
    connection.execute(f"LOAD {text(str(binary))}")
    connection.execute("SET lock_configuration = true")
    return connection


def _aggregates(
    raw: duckdb.DuckDBPyConnection, question: Question, path: Path, batch: int, decimals: int | None
) -> list[tuple[Any, ...]]:
    by = ", ".join(f"CAST({name(key)} AS VARCHAR)" for key in question.by)
    where = [
        f"AND CAST({name(key)} AS VARCHAR) IS NOT DISTINCT FROM {text(value)}"
        for key, value in question.where.items()
    ]
    return raw.execute(
        f"""
        SELECT [{by}]::VARCHAR[] AS key_values, {_columns(question.measure, decimals)}
        FROM delta_scan({text(str(path))})
        WHERE event_us >= {question.start_us} AND event_us < {question.end_us} AND batch <= {batch} {" ".join(where)}
        {"GROUP BY key_values" if by else ""}
        """
    ).fetchall()


def _columns(measure: str, decimals: int | None) -> str:
    if measure == "*":
        return "count(*), NULL, NULL, NULL, 0, 0"
    column = name(measure)
    if decimals is None:
        value = f"CASE WHEN isfinite({column}) THEN {column} END"
        magnitude = f"count({value}) * max(abs({value}))"
        return f"count({value}), fsum({value}), min({value}), max({value}), {magnitude}, 1"
    value = f"CAST({column} AS DECIMAL(38, {decimals}))"
    total, low, high = (f"CAST({aggregate}({value}) AS DOUBLE)" for aggregate in ("sum", "min", "max"))
    return f"count({value}), {total}, {low}, {high}, 0, 0"


def _answer(
    question: Question, row: tuple[Any, ...], version: int, grouping: list[str], final: bool
) -> Answer:
    key_values, n, total, low, high, magnitude, is_rounded = row
    values = {
        "count": float(n),
        "sum": float(total or 0),
        "avg": total / n if n and total is not None else None,
        "min": low,
        "max": high,
    }
    value = values[question.aggregate]
    bound = sys.float_info.epsilon * (n + 8) * (magnitude or 0) if is_rounded else 0.0
    bound = {"sum": bound, "avg": bound / n if n else 0.0}.get(question.aggregate, 0.0)
    low_side, high_side = (None, None) if value is None else (value - bound, value + bound)
    key = dict(zip(question.by, key_values, strict=True))
    return Answer(value, low_side, high_side, True, n, 0, None, version, key, grouping, final, n, n)


def _counting(question: Question) -> Question:
    fields = (question.stream, question.measure, "count", question.start_us, question.end_us)
    return Question(*fields, question.where, question.by)


def _grouping(published: duckdb.DuckDBPyConnection, question: Question) -> list[str]:
    asked = texts([*question.where, *question.by])
    row = published.execute(
        f"SELECT list_filter(groupings, lambda g: list_has_all(g.key_names, {asked}))[1].key_names "
        f"FROM ladder WHERE stream = {text(question.stream)} LIMIT 1"
    ).fetchone()
    return list(row[0]) if row else []


def _values(found: Answer) -> tuple[str | None, ...]:
    return tuple(found.key.values())


def _check_complete(
    question: Question,
    exact: list[Answer],
    estimates: dict[tuple[str | None, ...], Answer],
    retracted: bool,
) -> None:
    """Raw rows may have gone since the publish: then a count that the rollups know to be too small gives it away."""
    why = "; some were retracted, `tidemark run` publishes what is left" if retracted else ""
    counts = {_values(found): found.rows for found in exact}
    for key, estimate in estimates.items():
        if counts.get(key, 0) < estimate.rows_low:
            raise AskError(
                f"exact needs all raw rows of the range, and {question.stream} keeps only {counts.get(key, 0)} of at "
                f"least {estimate.rows_low}{why}; without exact the answer comes with its interval"
            )
