"""Noted rows are found by their file, line and item, also where hashes of these collide."""

from __future__ import annotations

import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.spark.noted_rows import PLACE, NotedRows
from lakehouse.spark.row_hash import xxhash64
from tests.oracles.queries.colliding_keys import PAIRS_OF_TEXTS

Place = tuple[str, int, int | None]
PLACES = st.lists(
    st.tuples(
        st.sampled_from(["a.csv", *(text for both in PAIRS_OF_TEXTS[:2] for text in both)]),
        st.sampled_from([1, 2, 2**53 + 1, 2**63 - 1]),
        st.sampled_from([None, 0, 1]),
    ),
    max_size=40,
)
TYPES = (pa.string(), pa.int64(), pa.int32())


def table(places: list[Place]) -> pa.Table:
    columns = zip(*places, strict=True) if places else ((), (), ())
    return pa.table([pa.array(each, kind) for each, kind in zip(columns, TYPES, strict=True)], PLACE)


def test_places_of_other_files_have_one_hash() -> None:
    places = table([(name, line, None) for line in (1, 7) for name in PAIRS_OF_TEXTS[0]])
    first, second, third, fourth = xxhash64(places.columns, 4).tolist()
    assert (first, third) == (second, fourth)


@given(PLACES, PLACES, PLACES)
def test_rows_are_noted_if_their_places_are_equal(
    noted: list[Place], others: list[Place], asked: list[Place]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{number}.parquet" for number in (1, 2)]
        for path, correction, own in zip(paths, (1, 2), (noted, others), strict=True):
            numbers = pa.array([correction] * len(own), pa.int64())
            rows = table(own).append_column("correction", numbers).append_column("event_us", numbers)
            pq.write_table(rows, path)
        rows = table([*asked, *noted[:3]])
        found = NotedRows(tuple(paths), 1).are(rows)
        assert found.tolist() == [place in noted for place in [*asked, *noted[:3]]]
        in_results = rows.rename_columns(["left_file", "left_line", "left_item"])
        coded = in_results.set_column(0, "left_file", in_results["left_file"].dictionary_encode())
        assert NotedRows(tuple(paths), 1).are(coded).tolist() == found.tolist()
