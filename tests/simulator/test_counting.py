from __future__ import annotations

import numpy as np

from lakehouse.simulator.counting import Written, count
from lakehouse.simulator.faults import CLEAN, CONFLICT, KINDS
from lakehouse.simulator.flows import FLOWS
from lakehouse.simulator.form import ABSENT


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
    assert (found["late"], found["max_lateness_us"]) == (2, 150)
    assert (found["min_event_us"], found["max_event_us"]) == (100, 300)
    assert found["missing"] == {"duration": 1, "bytes": 1, "packets": 0}
    assert found["sums"] == {"duration": "3.500001", "bytes": "30", "packets": "6"}
