"""Rows as numpy arrays: what an executor runs over where Arrow is not wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse.algorithms.scheduling.contract import Int64s


@dataclass(frozen=True)
class Columns:
    """Numpy arrays of one length by name.

    Raises:
        ValueError: the arrays differ in length.
    """

    arrays: Mapping[str, Any]

    def __post_init__(self) -> None:
        lengths = {name: len(array) for name, array in self.arrays.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"expected columns of one length, found {lengths}")

    @property
    def num_rows(self) -> int:
        """Return the number of rows; 0 without columns."""
        return len(next(iter(self.arrays.values()), ()))

    @property
    def nbytes(self) -> int:
        """Return the bytes of all columns."""
        return sum(array.nbytes for array in self.arrays.values())

    def __getitem__(self, name: str) -> Any:
        """Return a column."""
        return self.arrays[name]

    def select(self, names: Sequence[str]) -> Columns:
        """Return these columns only."""
        return Columns({name: self.arrays[name] for name in names})

    def take(self, indices: Int64s) -> Columns:
        """Return these rows, in this order."""
        return Columns({name: array[indices] for name, array in self.arrays.items()})
