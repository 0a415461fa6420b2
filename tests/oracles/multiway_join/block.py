"""A block with its rows, as virtual sites hold them; in tables the rows are Spark's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Bools, Int64s


@dataclass(frozen=True)
class Block:
    """Rows that came to a site at one time; made by ``Block.of``.

    ``key`` int64. ``row`` int64: an id that is unique at its site. ``missing``: rows whose key is null; such a row
    never joins, so no window keeps it.
    """

    site: str
    key: Int64s
    row: Int64s
    missing: Bools

    @classmethod
    def of(cls, site: str, key: Any, row: Any, missing: Any = None) -> Self:
        """Return a block.

        Raises:
            ValueError: columns differ in length.
        """
        key, row = np.asarray(key, np.int64), np.asarray(row, np.int64)
        missing = np.zeros(len(key), np.bool_) if missing is None else np.asarray(missing, np.bool_)
        if not len(key) == len(row) == len(missing):
            raise ValueError(
                f"expected columns of one length, found {len(key)} keys, {len(row)} rows and {len(missing)} missing"
            )
        return cls(site, key, row, missing)

    def __len__(self) -> int:
        return len(self.key)
