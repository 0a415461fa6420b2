"""Arguments that the parser lets through, of every class that sqlglot has: nothing of them is left unevaluated."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from sqlglot import exp, parse_one

from lakehouse.queries.language.arguments import unread
from lakehouse.queries.language.filters import check_filter, check_value, filter_sql, value_sql
from lakehouse.queries.language.tokens import Faults, QueryError
from lakehouse.queries.language.tree import Names, Source
from lakehouse.queries.registered import parse_query
from lakehouse.queries.runtime.tasks.arrow_sql import mask_of, select
from tests.oracles.queries.conditions import conditions_of
from tests.queries.declared_streams import stream_of
from tests.queries.runtime.test_conditions import ROWS, STREAM, batch_of

TABLES = "readings [1 MINUTE] a JOIN readings [1 MINUTE] b ON a.device = b.device"
COUNTED = f"SELECT COUNT(*) AS n, MAX(a.temp) AS top FROM {TABLES}"

# Each is a text whose fault stands at the mark, and what is said of it.
REFUSED = [
    ("SELECT room FROM readings WHERE ^count BETWEEN SYMMETRIC 5 AND 1", "BETWEEN with symmetric"),
    ("SELECT room FROM readings WHERE ^LTRIM(device) = 'a'", "TRIM with position LEADING"),
    ("SELECT room FROM readings WHERE ^RTRIM(device) = 'a'", "TRIM with position TRAILING"),
    ("SELECT room FROM readings WHERE TRIM(LEADING ^'x' FROM device) = 'a'", "TRIM with position LEADING"),
    ("SELECT room FROM readings WHERE TRIM(BOTH ^'x' FROM device) = 'a'", "TRIM with expression"),
    (
        "SELECT room FROM readings WHERE device LIKE 'a!%' ESCAPE ^'!!'",
        "one character in quotes behind ESCAPE",
    ),
    ("SELECT room FROM readings WHERE device LIKE 'a!%' ESCAPE ^room", "'room'; expected SELECT"),
    ("SELECT room FROM readings WHERE device LIKE 'a!b' ESCAPE ^'!'", "expected %, _ or ! behind each !"),
    ("SELECT room FROM readings WHERE device LIKE 'a!' ESCAPE ^'!'", "expected %, _ or ! behind each !"),
    (
        "SELECT room FROM readings WHERE ^device LIKE room ESCAPE '!'",
        "LIKE and a pattern in quotes before ESC",
    ),
    (r"SELECT room FROM readings WHERE device LIKE ^'a\\\\%'", "with ESCAPE behind one that has backslashes"),
    (
        "SELECT room FROM readings WHERE CAST(^count AS string) = '1'",
        "'CAST.*expected columns, texts, num",
    ),
    (
        "SELECT room FROM readings WHERE TRY_CAST(^device AS int) = 1",
        "TRYCAST with safe; expected TRYCAST without",
    ),
    ("SELECT room FROM readings WHERE ^device::int = 1", "expected columns, texts, numbers"),
    ("SELECT room FROM readings WHERE device LIKE ANY (^'a', 'b')", "a pattern in quotes"),
    ("SELECT room FROM readings WHERE ^device IN ()", "IN of nothing"),
    ("SELECT room FROM readings WHERE ^device IS 'a'", "IS 'a'"),
    ("SELECT room FROM readings WHERE count = ^1e999", "1e999; expected a number that a double can hold"),
    ("SELECT room FROM readings AS ^r(x, y) WHERE count = 1", "TABLEALIAS with columns"),
    ("SELECT ^* REPLACE (1 AS room) FROM readings WHERE count = 1", "STAR with replace"),
    (
        f"{COUNTED} GROUP BY a.room HAVING ^COUNT(*) BETWEEN SYMMETRIC 5 AND 1 EVERY 1 MINUTE",
        "BETWEEN with symm",
    ),
    (f"{COUNTED} AND ^a.temp BETWEEN SYMMETRIC 5 AND 1 EVERY 1 MINUTE", "BETWEEN with symmetric"),
]


@pytest.mark.parametrize(("marked", "said"), REFUSED)
def test_an_argument_that_nothing_reads_is_refused_with_its_place(marked: str, said: str) -> None:
    before, _, after = marked.partition("^")

    with pytest.raises(QueryError, match=said) as refused:
        parse_query("q", before + after, {"readings": STREAM})

    assert (refused.value.line, refused.value.column) == (1, len(before) + 1)


def classes() -> Iterator[type[exp.Expr]]:
    known = [exp.Expr]
    while known:
        known.extend(known.pop().__subclasses__())
        if known:
            yield known[-1]


def values(name: str) -> list[Any]:
    """Return what an argument may be: columns of each kind, literals, and texts that are no node."""
    columns = [exp.column(column, quoted=True) for column in ("device", "count", "flag", "temp")]
    literals = [exp.Literal.string("a%"), exp.Literal.number(2), exp.true(), exp.Null()]
    if name in ("expressions", "ifs"):
        return [[each] for each in (*columns, *literals)]
    return [*columns, *literals]


def is_concrete(kind: type[exp.Expr]) -> bool:
    """Tell if there can be nodes of a class itself: some are only what others have in common."""
    try:
        kind(this=exp.Null())
    except NotImplementedError:
        return False
    return True


def nodes(kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """Yield nodes of a class: with what it needs, and with each of its other arguments besides."""
    needed = [name for name, is_needed in kind.arg_types.items() if is_needed]
    others = [name for name, is_needed in kind.arg_types.items() if not is_needed]
    if len(needed) > 3 or not is_concrete(kind):
        return
    for given in product(*map(values, needed)):
        own = dict(zip(needed, given, strict=True))
        yield kind(**own)
        for other in others:
            flags = () if other == "expressions" else ("LEADING", True)
            for value in (*values(other), *flags):
                yield kind(**own, **{other: value})


def is_let_through(node: exp.Expr, names: Names) -> bool:
    """Tell if the parser takes a node for a condition, or for a number of a row."""
    try:
        if any(unread(node)):
            return False
        return check_filter(node.copy(), names) or check_value(node.copy(), names)
    except (AttributeError, TypeError, ValueError, IndexError, KeyError, NameError):
        # No text is read as such a node.
        return False


def is_refused_as_such(kind: type[exp.Expr], names: Names) -> bool:
    """Tell if the last fault is the class itself: then no argument makes a difference."""
    found, names.faults.found = names.faults.found, []
    return bool(found) and found[-1].expected.startswith("columns, texts, numbers")


def test_nothing_that_the_parser_lets_through_is_left_unevaluated() -> None:
    names = Names((Source("readings", "readings", STREAM.all_columns),), Faults(""))
    batch, accepted = batch_of(ROWS), set[str]()

    for kind in set(classes()):
        for node in nodes(kind):
            if not is_let_through(node, names):
                if is_refused_as_such(kind, names):
                    break
                continue
            accepted.add(kind.__name__)
            names.faults.found.clear()
            if check_filter(node.copy(), names):
                text = filter_sql(node)
                assert len(np.asarray(mask_of(text)(batch))) == len(ROWS), text
            else:
                text = f"{value_sql(node, 'double')} AS x"
                assert select(batch, [text]).num_rows == len(ROWS), text
            assert not list(unread(parse_one(text, dialect="spark"))), text

    compared = frozenset[str]().union(*(node.operators for node in conditions_of(500, seed=3)))
    # What is let through is what the yardstick of conditions has.
    assert accepted <= compared
    assert accepted >= {"Like", "ILike", "In", "Between", "Is", "Not", "NullSafeNEQ", "Mod", "Length"}


def test_not_like_is_not_like() -> None:
    query = parse_query(
        "q", "SELECT room FROM readings WHERE device NOT LIKE 'a%'", {"readings": stream_of()}
    )
    (conjunct,) = query.conjuncts  # type: ignore[attr-defined]

    found = np.asarray(mask_of(conjunct.text)(batch_of(ROWS))).tolist()

    assert found == [row["device"] is not None and not row["device"].startswith("a") for row in ROWS]
