"""Records that wait in quarantine, counted by Arrow from the ledger, against each entry looked at by itself."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.rollup.levels import Level
from lakehouse.config.stream import Source, Stream
from lakehouse.config.times import TimeColumn
from lakehouse.ingest.quarantine import NEVER_READ, waiting_records
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.storage.layout import Home

LEDGER = pa.schema(
    {
        **dict.fromkeys(("batch", "min_event_us", "newest_us", "confirmed_us"), pa.int64()),
        "reasons": pa.map_(pa.string(), pa.int64()),
    }
)
STREAM = Stream(
    name="readings",
    source=Source(path="x", format="ndjson"),
    event_time=TimeColumn(column="ts", unit="us"),
    levels=(Level(1_000_000, None),),
)
REASONS = ("clock", "malformed", "conflict", NEVER_READ[0])
Rejected = dict[str, int] | None
ENTRY = st.none() | st.dictionaries(st.sampled_from(REASONS), st.integers(1, 9))
REQUEUE = st.lists(st.sampled_from(REASONS), max_size=2, unique=True).map(tuple)


@settings(max_examples=20, deadline=None)
@given(steps=st.lists(st.one_of(st.lists(ENTRY, min_size=1, max_size=4), REQUEUE), min_size=1, max_size=6))
def test_what_waits_is_what_no_requeue_after_it_took(steps: list[list[Rejected] | tuple[str, ...]]) -> None:
    expected = Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        home, batch = Home(Path(name)), 0
        store = ManifestStore(home.manifests("readings"))
        for step in steps:
            rows = [*step] if isinstance(step, list) else [None]
            if isinstance(step, tuple):
                # It is the next batch by the manifests, of which there are none of files here.
                while store.last_batch < batch:
                    store.add_requeue(("nothing",))
                store.add_requeue(step)
                for reason in step or REASONS:
                    if reason not in NEVER_READ:
                        expected[reason] = 0
            entries = [{"batch": batch + place, "reasons": row} for place, row in enumerate(rows, start=1)]
            batch += len(rows)
            write_deltalake(
                str(home.ledger("readings")), pa.Table.from_pylist(entries, LEDGER), mode="append"
            )
            for row in rows:
                expected.update(row or {})
        store = ManifestStore(home.manifests("readings"))

        assert waiting_records(home, STREAM) == dict(+expected)


def test_without_a_ledger_nothing_waits(tmp_path: Path) -> None:
    home = Home(tmp_path)

    assert waiting_records(home, STREAM) == {}
