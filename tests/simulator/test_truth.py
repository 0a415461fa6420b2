from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from lakehouse.simulator.faults import CLEAN, CONFLICT, KINDS
from lakehouse.simulator.flows import FLOWS
from lakehouse.simulator.form import ABSENT
from lakehouse.simulator.truth import Truth, Written, count, read_truth, truth_file, write_truth

ONE = Truth(
    stream="flows",
    calls=1,
    end_us=100,
    files=("flows-000001.csv",),
    received=12,
    accepted=8,
    quarantined=3,
    duplicates=1,
    late=2,
    max_lateness_us=50,
    withheld=4,
    min_event_us=5,
    max_event_us=95,
    kinds={"clean": 8, "nan": 1},
    reasons={"clock": 3},
    missing={"bytes": 1, "packets": 0},
    sums={"bytes": "0.1"},
)
TWO = replace(
    ONE,
    end_us=200,
    files=("flows-000002.csv",),
    max_lateness_us=70,
    min_event_us=105,
    max_event_us=190,
    reasons={"conflict": 2},
)


def test_the_truth_of_two_calls_is_that_of_all_their_files() -> None:
    both = ONE + TWO

    assert (both.calls, both.end_us, both.files) == (2, 200, ("flows-000001.csv", "flows-000002.csv"))
    assert (both.received, both.accepted, both.withheld) == (24, 16, 8)
    assert (both.min_event_us, both.max_event_us, both.max_lateness_us) == (5, 190, 70)
    assert both.reasons == {"clock": 3, "conflict": 2}
    assert both.missing == {"bytes": 2, "packets": 0}


def test_sums_are_added_to_the_last_digit() -> None:
    assert (ONE + replace(TWO, sums={"bytes": "0.2"})).sums == {"bytes": "0.3"}


def test_a_call_that_accepted_nothing_leaves_the_range_as_it_was() -> None:
    nothing = replace(TWO, accepted=0, min_event_us=None, max_event_us=None)

    assert ((ONE + nothing).min_event_us, (nothing + ONE).max_event_us) == (5, 95)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    assert read_truth(tmp_path, "flows") is None

    write_truth(tmp_path, ONE)

    assert read_truth(tmp_path, "flows") == ONE
    assert list(tmp_path.iterdir()) == [truth_file(tmp_path, "flows")]


def test_one_row_of_each_fate_is_counted_as_such() -> None:
    """Arrival: row 1, row 0 late, row 1 again, a conflict with row 0, NaN for row 2, garbage for row 3."""
    kind = np.array([CLEAN, CLEAN, CLEAN, CONFLICT, KINDS.index("nan"), KINDS.index("garbage")])
    written = Written(
        row=np.array([1, 0, 1, 4, 2, 3]),
        received_us=np.arange(6),
        kind=kind,
        is_repeat=np.array([False, False, True, False, False, False]),
    )
    columns = {
        "duration": np.array([1_500_000, ABSENT, 2_000_001, 7, 1_500_000]),
        "bytes": np.array([10, 20, 40, 80, 11]),
        "packets": np.array([1, 2, 3, 4, 1]),
    }

    found = count(FLOWS, columns, np.array([100, 250, 300, 400, 100]), written)

    assert found["kinds"] == {"clean": 2, "garbage": 1, "nan": 1, "conflict": 1, "repeat": 1}
    assert found["reasons"] == {"malformed": 1, "conflict": 1}
    assert (found["received"], found["accepted"], found["quarantined"], found["duplicates"]) == (6, 3, 2, 1)
    assert (found["late"], found["max_lateness_us"]) == (1, 150)
    assert (found["min_event_us"], found["max_event_us"]) == (100, 300)
    assert found["missing"] == {"duration": 1, "bytes": 1, "packets": 0}
    assert found["sums"] == {"duration": "3.500001", "bytes": "30", "packets": "6"}
