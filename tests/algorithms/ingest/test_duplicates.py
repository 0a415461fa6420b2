from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.ingest import duplicates
from lakehouse.algorithms.ingest.duplicates import ACCEPTED, CONFLICT, DUPLICATE
from tests.oracles.ingest import duplicates_scan

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 30), st.booleans()),
    min_size=1,
    max_size=40,
)


def sorted_verdicts(rows: list[tuple[int, int, int, bool]], within_us: int) -> list[int]:
    """The kernel's verdicts, put back into the order of the rows."""
    order = sorted(range(len(rows)), key=lambda i: (rows[i][0], not rows[i][3], i))
    identity = np.array([[rows[i][0], 7] for i in order], np.int64)
    payload, event = (np.array([rows[i][part] for i in order], np.int64) for part in (1, 2))
    known = np.array([rows[i][3] for i in order], np.bool_)
    found = duplicates.verdicts(identity, payload, event, known, within_us)
    result = [0] * len(rows)
    for place, row in enumerate(order):
        result[row] = int(found[place])
    return result


@settings(deadline=None)
@given(rows=ROWS, within_us=st.integers(0, 40))
def test_sorted_kernel_agrees_with_the_scan(rows: list[tuple[int, int, int, bool]], within_us: int) -> None:
    ordered = sorted(rows, key=lambda row: not row[3])

    identity, payload, event, known = (list(part) for part in zip(*ordered, strict=True))
    expected = duplicates_scan.verdicts(identity, payload, event, known, within_us)

    assert sorted_verdicts(ordered, within_us) == expected


def test_first_row_stays_and_a_copy_of_it_is_a_duplicate() -> None:
    rows = [(1, 10, 0, False), (1, 10, 0, False), (1, 11, 0, False)]
    assert sorted_verdicts(rows, within_us=5) == [ACCEPTED, DUPLICATE, CONFLICT]


def test_copy_further_away_than_the_bound_is_a_row_of_its_own() -> None:
    rows = [(1, 10, 0, False), (1, 10, 6, False)]
    assert sorted_verdicts(rows, within_us=5) == [ACCEPTED, ACCEPTED]
