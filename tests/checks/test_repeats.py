"""Repeated identities as the slow obvious way finds them: each row beside the one before it of its identity."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.checks.repeats import repeats

WITHIN = 5
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([1, 2, None]),
        st.integers(0, 30),
        st.integers(1, 3),
    ),
    max_size=25,
)


@given(ROWS, st.integers(-1, 2))
def test_a_repeat_is_counted_in_the_newer_batch_where_that_is_new(
    rows: list[tuple[str | None, int | None, int, int]], since: int
) -> None:
    columns = {
        "device": pa.array([device for device, _, _, _ in rows], pa.string()),
        "port": pa.array([port for _, port, _, _ in rows], pa.int64()),
        "event_us": pa.array([at for _, _, at, _ in rows], pa.int64()),
        "batch": pa.array([batch for *_, batch in rows], pa.int64()),
    }

    found = repeats(pa.table(columns), ["device", "port"], WITHIN, since)

    by_identity = defaultdict(list)
    for device, port, at, batch in rows:
        # A row that lacks a part of its identity has none.
        if device is not None and port is not None:
            by_identity[device, port].append((at, batch))
    pairs = Counter[int]()
    for same in by_identity.values():
        same.sort(key=lambda row: row[0])
        for (before, older), (at, newer) in pairwise(same):
            if at - before <= WITHIN and max(older, newer) > since:
                pairs[max(older, newer)] += 1
    assert found == pairs
