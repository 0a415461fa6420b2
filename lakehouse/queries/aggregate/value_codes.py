"""Numbers of keys and groups in a bucket, by which methods compare them: equal if and only if the values are.

    ValueCodes      values of some columns <-> numbers
    BucketCodes     a number for each join attribute of a row, and one for its part of the group
    coded, newest   numbers of groups of answers and alarms, and the newest row of each

Numbers count while a process holds a bucket. On disk are the values, so neither processes nor buckets of another scale
need to agree on them. Equality is that of ``key_codes``, but null equals null here: it is a group.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.join_aggregate.contract import Bools, Int64s, Rows
from lakehouse.queries.aggregate.query import AggregateQuery, shape_of
from lakehouse.spark.comparisons import same
from lakehouse.spark.key_codes import key_codes
from lakehouse.spark.row_hash import xxhash64

# Nobody can make values in advance that are slow to find.
_SEED = np.uint64(secrets.randbits(64))
ANSWER, ALARM = "answer", "alarm"


def coded(rows: pa.Table, names: Sequence[str]) -> Int64s:
    """Return a number per row, equal where the named columns are; nulls are equal."""
    return key_codes([rows.select(names)])[0].code


def newest(rows: pa.Table, keys: list[str], version: str) -> pa.Table:
    """Return the row of the highest version for each key."""
    codes = coded(rows, keys)
    order = np.lexsort((rows[version].to_numpy(), codes))
    is_last = np.ones(len(order), np.bool_)
    is_last[:-1] = codes[order][1:] != codes[order][:-1]
    return rows.take(pa.array(order[is_last]))


class BucketCodes:
    """Numbers of the keys and groups of a bucket's rows: columns k_0 ... and g_<name> ..."""

    def __init__(self, query: AggregateQuery) -> None:
        self._keys = [ValueCodes() for _ in range(shape_of(query).width)]
        self._groups = ValueCodes()
        self._names = [f"g_{group.name}" for group in query.groups]

    def keys(self, rows: pa.Table) -> Int64s:
        """Return the numbers of each row's keys, 0 for an attribute that it does not carry."""
        return np.column_stack([own.of(rows.select([f"k_{n}"])) for n, own in enumerate(self._keys)])

    def group(self, rows: pa.Table) -> Int64s:
        """Return the number of each row's part of the group."""
        return self._groups.of(rows.select(self._names)) if self._names else np.zeros(len(rows), np.int64)

    def values(self, rows: Rows) -> dict[str, pa.Array]:
        """Return the keys and groups of rows, as columns."""
        keys = {f"k_{n}": own.columns(rows.keys[:, n])[f"k_{n}"] for n, own in enumerate(self._keys)}
        return keys | self.groups(rows.group)

    def groups(self, group: Int64s) -> dict[str, pa.Array]:
        """Return what numbers of groups stand for, as columns."""
        return self._groups.columns(group)

    @property
    def is_due(self) -> bool:
        """Tell if ``prune`` would pay."""
        return any(own.is_due for own in (*self._keys, self._groups))

    def prune(self, rows: Rows) -> None:
        """Keep the values of these rows only."""
        for own, codes in zip((*self._keys, self._groups), (*rows.keys.T, rows.group), strict=True):
            own.prune(codes)


class ValueCodes:
    """Numbers from 1 of values of some columns; 0 stands for null in all of them.

    Values are in blocks in order of their numbers, each at least twice as long as the next: new ones cost O(log n).
    """

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._empty = pa.table({})
        self._next, self._pruned = 1, 0

    def __len__(self) -> int:
        return sum(len(block.codes) for block in self._blocks)

    def of(self, values: pa.Table) -> Int64s:
        """Return the number of each row's value; the table has the same columns each time."""
        [dense] = key_codes([values])
        first = np.empty(dense.code.max(initial=-1) + 1, np.int64)
        first[dense.code[::-1]] = np.arange(len(dense.code))[::-1]
        distinct = plain(values.take(pa.array(first)))
        self._empty = distinct.slice(0, 0)
        hashes = xxhash64(distinct.columns, len(first), _SEED)
        codes = np.zeros(len(first), np.int64)
        is_null = reduce(pc.and_, map(pc.is_null, distinct.columns))
        new = np.flatnonzero(~is_null.to_numpy())
        for block in self._blocks:
            codes[new] = block.find(distinct.take(pa.array(new)), hashes[new])
            new = new[codes[new] == 0]
        if len(new):
            codes[new] = self._next + np.arange(len(new))
            self._next += len(new)
            self._append(_Block.of(codes[new], distinct.take(pa.array(new)), hashes[new]))
        return codes[dense.code]

    def columns(self, codes: Int64s) -> dict[str, pa.Array]:
        """Return the columns of the values that numbers stand for, each value once."""
        known, which = np.unique(codes, return_inverse=True)
        tables = [self._empty, *(block.values_of(known) for block in self._blocks)]
        values = pa.concat_tables(tables).combine_chunks()
        indices = pa.array((which - np.count_nonzero(known == 0)).astype(np.int32), mask=codes == 0)
        return {
            name: pa.DictionaryArray.from_arrays(indices, pa.concat_arrays(values[name].chunks))
            if values.num_rows
            else pa.nulls(len(codes), values[name].type)
            for name in values.column_names
        }

    def prune(self, codes: Int64s) -> None:
        """Keep these numbers and their values only."""
        held = np.unique(codes)
        kept = [(block, np.isin(block.codes, held)) for block in self._blocks]
        self._blocks = [block.only(stays) for block, stays in kept if stays.any()]
        self._pruned = len(self)

    @property
    def is_due(self) -> bool:
        """Tell if there are twice as many values as when they were last pruned."""
        return len(self) > 1024 + 2 * self._pruned

    def _append(self, block: _Block) -> None:
        self._blocks.append(block)
        while len(self._blocks) > 1 and len(self._blocks[-2].codes) < 2 * len(self._blocks[-1].codes):
            self._blocks[-2:] = [self._blocks[-2].joined(self._blocks[-1])]


@dataclass(frozen=True)
class _Block:
    """Values with their ascending numbers and their hashes; ``order`` lists them by hash."""

    codes: Int64s
    values: pa.Table
    hashes: Int64s
    order: Int64s

    @classmethod
    def of(cls, codes: Int64s, values: pa.Table, hashes: Int64s) -> Self:
        return cls(codes, values.combine_chunks(), hashes, np.argsort(hashes))

    def joined(self, other: Self) -> Self:
        values = pa.concat_tables([self.values, other.values])
        codes = np.concatenate([self.codes, other.codes])
        return self.of(codes, values, np.concatenate([self.hashes, other.hashes]))

    def only(self, stays: Bools) -> Self:
        return self.of(self.codes[stays], self.values.filter(pa.array(stays)), self.hashes[stays])

    def values_of(self, codes: Int64s) -> pa.Table:
        """Return the values of those of some ascending numbers that are in the block."""
        first, last = np.searchsorted(codes, [self.codes[0], self.codes[-1] + 1])
        return self.values.take(pa.array(np.searchsorted(self.codes, codes[first:last])))

    def find(self, values: pa.Table, hashes: Int64s) -> Int64s:
        """Return the numbers of values, 0 of those that are not in the block.

        Cost: a search, and for each value of the same hash a comparison.
        """
        at = np.searchsorted(self.hashes, hashes, sorter=self.order)
        found, left = np.zeros(len(hashes), np.int64), np.arange(len(hashes))
        while len(left := left[at[left] < len(self.order)]):
            left = left[self.hashes[self.order[at[left]]] == hashes[left]]
            place = self.order[at[left]]
            is_same = _are_same(values.take(pa.array(left)), self.values.take(pa.array(place)))
            found[left[is_same]] = self.codes[place[is_same]]
            left = left[~is_same]
            at[left] += 1
        return found


def plain(rows: pa.Table) -> pa.Table:
    """Return rows with dictionaries as their values."""
    columns = [
        each.cast(each.type.value_type) if pa.types.is_dictionary(each.type) else each
        for each in rows.columns
    ]
    return pa.table(columns, rows.column_names)


def _are_same(one: pa.Table, two: pa.Table) -> Bools:
    each = [
        same(a.combine_chunks(), b.combine_chunks()) for a, b in zip(one.columns, two.columns, strict=True)
    ]
    return np.asarray(reduce(pc.and_, each).to_numpy(zero_copy_only=False), np.bool_)
