"""Sums of doubles in a rollup's nodes, in Arrow, as two columns: the sum and what rounding cut off it.

{m}__sum      the double nearest to the sum
{m}__carry    what is left
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.rollup.runs import sum_runs


def wanted(name: str, lifted: bool) -> list[tuple[str, str, str]]:
    """Return what a group keeps of a measure's sums, for ``totalled``; ``lifted``: its values, which have no carry."""
    parts = ("sum",) if lifted else ("sum", "carry")
    return [(f"{name}__{part}", f"{name}__{part}", "list") for part in parts]


def totalled(groups: pa.Table, measures: Sequence[str]) -> pa.Table:
    """Return groups with the lists of each measure's sums added up: a sum and a carry each.

    Cost: one pass.
    """
    for name in measures:
        place = groups.schema.get_field_index(f"{name}__sum")
        has_carry = f"{name}__carry" in groups.column_names
        carries = groups[f"{name}__carry"] if has_carry else None
        sums, rests = _added(groups[f"{name}__sum"], carries)
        groups = groups.set_column(place, f"{name}__sum", sums)
        if has_carry:
            groups = groups.drop_columns([f"{name}__carry"])
        groups = groups.add_column(place + 1, f"{name}__carry", rests)
    return groups


def _added(totals: pa.ChunkedArray, carries: pa.ChunkedArray | None) -> tuple[pa.Array, pa.Array]:
    lists = _whole(totals)
    values = lists.values
    rests = _whole(carries).values if carries is not None else pa.repeat(0.0, len(values))
    size = len(lists)
    sums, left, is_sum = np.empty(size), np.empty(size), np.empty(size, np.bool_)
    is_value: npt.NDArray[np.bool_] = values.is_valid().to_numpy(zero_copy_only=False)
    sum_runs(lists.offsets.to_numpy(), _filled(values), _filled(rests), is_value, sums, left, is_sum)
    return pa.array(sums, mask=~is_sum), pa.array(left, mask=~is_sum)


def _whole(lists: pa.ChunkedArray) -> pa.ListArray:
    found = lists.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def _filled(values: pa.Array) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    return found
