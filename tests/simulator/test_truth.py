from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from lakehouse.simulator.truth import Truth, read_truth, truth_file, write_truth

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


def test_a_truth_with_late_conflicts_by_themselves_is_read(tmp_path: Path) -> None:
    write_truth(tmp_path, ONE)
    path = truth_file(tmp_path, "flows")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"late_conflicts": 3}))

    assert read_truth(tmp_path, "flows") == replace(ONE, late=ONE.late + 3)
