"""JSON records with a list whose items are rows -> the records around their lists, and the items, in Arrow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.ingest.parser.json_record import JsonPaths, Parts
from lakehouse.ingest.parser.json_shapes import (
    Places,
    letters_of,
    marks_in,
    pieces,
    shaped_records,
    texts_between,
)

Rows = tuple[Places, Places, dict[str, pa.Array]]
Mask = npt.NDArray[np.bool_]
# By how much each letter goes deeper.
_STEPS = np.isin(np.arange(256), list(b"{[")).astype(np.int8) - np.isin(np.arange(256), list(b"}]"))


def shaped_rows(lines: pa.Array, paths: JsonPaths) -> Iterator[Rows]:
    """Yield the places, items and texts of the rows of those lines that are of a few shapes, and so are their items.

    Lines are UTF-8 without control characters and backslashes.
    """
    if not paths.lists:
        for places, texts in shaped_records(lines, paths.fields[0]):
            yield places, np.zeros(len(places), np.int64), texts
        return
    if not all(len(level) == 1 and _leads_through(level[0], paths.lists[0][0]) for level in paths.lists):
        # Records of lists side by side, or of each with each, are read one by one.
        return
    is_even = pc.equal(pc.bit_wise_and(pc.count_substring(lines, '"'), 1), 0).to_numpy(zero_copy_only=False)
    at = np.flatnonzero(is_even)
    for low, some in pieces(lines.take(pa.array(at))):
        places, items, texts = _rows_of_items(some, paths)
        yield at[low + places], items, texts


def _leads_through(path: Parts, listed: Parts) -> bool:
    return path[: len(listed)] == listed


def _rows_of_items(lines: pa.Array, paths: JsonPaths) -> Rows:
    (listed,) = paths.lists[0]
    result = _Lists.of(lines, listed[-1])
    count = len(result.places)
    is_shaped, outer = _joined(shaped_records(result.around, paths.fields[0], listed), paths.fields[0], count)
    of_row, own = _rows_inside(result.items, paths, len(listed))
    is_item = np.zeros(len(result.items), np.bool_)
    is_item[of_row] = True
    # A line is plain if all of it is.
    is_shaped &= np.bincount(result.of_list[~is_item], minlength=count) == 0
    lists = result.of_list[of_row]
    kept = is_shaped[lists]
    texts = {name: text.filter(pa.array(kept)) for name, text in own.items()}
    lists = lists[kept]
    texts |= {name: text.take(pa.array(lists)) for name, text in outer.items()}
    return result.places[lists], np.arange(len(lists)) - np.searchsorted(lists, lists), texts


def _rows_inside(items: pa.Array, paths: JsonPaths, depth: int) -> tuple[Places, dict[str, pa.Array]]:
    """Return the items that rows are of, in order, and the texts of rows; an item is one, or has a list of them."""
    fields = tuple({name: parts[depth:] for name, parts in level.items()} for level in paths.fields[1:])
    if len(fields) > 1:
        lists = tuple(tuple(path[depth:] for path in level) for level in paths.lists[1:])
        of_row, _, texts = _rows_of_items(items, JsonPaths(lists, fields))
        return of_row, texts
    is_item, texts = _joined(shaped_records(items, fields[0]), fields[0], len(items))
    at = np.flatnonzero(is_item)
    return at, {name: text.take(pa.array(at)) for name, text in texts.items()}


def _joined(
    parts: Iterable[tuple[Places, dict[str, pa.Array]]], names: Iterable[str], count: int
) -> tuple[Mask, dict[str, pa.Array]]:
    """Return which of so many records are in some part, and the texts of all in order, null where they are in none."""
    kept = list(parts)
    index = np.full(count, -1, np.int64)
    places = np.concatenate([np.empty(0, np.int64), *(at for at, _ in kept)])
    index[places] = np.arange(len(places))
    at = pa.array(index, mask=index < 0)
    none = pa.nulls(0, pa.string())
    texts = {name: pa.concat_arrays([none, *(result[name] for _, result in kept)]).take(at) for name in names}
    return index >= 0, texts


@dataclass(frozen=True)
class _Lists:
    """The first list of a name in each line that has one.

    ``places``: of these lines. ``around``: the lines with an empty list instead. ``items``: of all lists, one behind
    the other, with the number of the list that each is of.
    """

    places: Places
    around: pa.Array
    items: pa.Array
    of_list: Places

    @staticmethod
    def of(lines: pa.Array, name: str) -> _Lists:
        """Return the lists of lines that have each quote twice; lists that do not end are left out."""
        letters, ends = letters_of(lines)
        at = marks_in(letters)
        kinds, marks = letters[at], np.diff(np.searchsorted(at, ends))
        line_of, depths = np.repeat(np.arange(len(lines)), marks), np.cumsum(_STEPS[kinds], dtype=np.int64)
        keys = pc.find_substring_regex(lines, rf'"{re.escape(name)}" *: *\[').to_numpy(zero_copy_only=False)
        places = np.flatnonzero(keys >= 0)
        # Behind the name there are the colon and the bracket.
        opening = np.full(len(lines), len(at), np.int64)
        opening[places] = np.searchsorted(at, ends[places] + keys[places]) + 1
        depth = np.full(len(lines), -1, np.int64)
        depth[places] = depths[opening[places]]
        is_inside = np.arange(len(at)) > opening[line_of]
        closes = np.flatnonzero(is_inside & (depths == depth[line_of] - 1) & (kinds == ord("]")))
        closed, nearest = np.unique(line_of[closes], return_index=True)
        closing = np.full(len(lines), -1, np.int64)
        closing[closed] = closes[nearest]
        is_comma = is_inside & (np.arange(len(at)) < closing[line_of]) & (depths == depth[line_of])
        commas = np.flatnonzero(is_comma & (kinds == ord(",")))
        opened, closing = opening[closed], closing[closed]
        begins, stops = np.sort(np.concatenate([opened, commas])), np.sort(np.concatenate([commas, closing]))
        around = np.stack([ends[closed], at[opened] + 1, at[closing], ends[closed + 1]], axis=1).ravel()
        of_list = np.searchsorted(closed, line_of[begins])
        return _Lists(
            closed,
            texts_between(letters, around[::2], around[1::2], each=2),
            texts_between(letters, at[begins] + 1, at[stops]),
            of_list,
        )
