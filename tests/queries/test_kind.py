from __future__ import annotations

from pathlib import Path

from lakehouse.queries.kind import (
    Conjunct,
    PythonCall,
    in_one_order,
    of_side,
    where_of,
    where_text,
)
from lakehouse.queries.pairs.query import PairSide

PLAIN = (Conjunct("`y` < 1", ("y",)), Conjunct("`x` > 5", ("x",)))
CALL = Conjunct("odd(kind, x)", ("kind", "x"), PythonCall("odd", Path("odd.py"), by_row=True))


def test_comparisons_are_one_text_in_one_order() -> None:
    assert in_one_order(PLAIN) == in_one_order(PLAIN[::-1]) == "`x` > 5 AND `y` < 1"
    assert in_one_order(()) is None


def test_a_side_has_conjuncts_only_where_one_calls() -> None:
    assert of_side(PLAIN) == {"where": "`x` > 5 AND `y` < 1"}
    assert of_side((PLAIN[0], CALL)) == {"conjuncts": (PLAIN[0], CALL)}
    assert of_side(()) == {"where": None}


def test_what_where_says_of_a_side_has_its_calls() -> None:
    sides = [PairSide("s", "a", (), (), **of_side(each)) for each in ((), PLAIN, (PLAIN[0], CALL))]

    assert [where_of(side) for side in sides] == [
        None,
        "`x` > 5 AND `y` < 1",
        "`y` < 1 AND odd(kind, x)",
    ]
    assert [where_text(side) for side in sides] == [where_of(side) or "true" for side in sides]
