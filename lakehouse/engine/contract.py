"""The contract between kernels and engines.

A kernel is a function over Arrow tables that knows nothing of the engine. It may run in another process or on another
machine, at the same time as others and more than once for one item, so that it must give the same result each time and
write to nothing but files of new names. It is a function of a module, or a ``functools.partial`` of one, whose
arguments can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

# A row of the items by column: a path, a batch, a range.
Item = Mapping[str, Any]
Kernel = Callable[[Item], "Iterator[pa.Table]"]
KeyedKernel = Callable[[int, "pa.Table"], "pa.Table"]


class Session(Protocol):
    """Session of Spark, or what starts one when it is first asked: only engines ask it."""

    @property
    def read(self) -> Any:
        """Reader of Spark."""


class Engine(Protocol):
    """Runs kernels; what they return reaches the driver, so it is entries of files and small figures, never rows.

    An error of a kernel is raised as it is, with a note that names the step and the item.
    """

    @property
    def cores(self) -> int:
        """Number of kernels that run at a time: more items than this use the engine well."""

    @property
    def is_local(self) -> bool:
        """True if kernels run on this machine, and see its files."""

    def map(self, items: pa.Table, kernel: Kernel, schema: pa.Schema, step: str) -> pa.Table:
        """Run a kernel once for each row of a small table; return all that it yields, in the order of the items.

        ``schema``: of what the kernel yields. ``step``: what is done, for people, such as "ingest telemetry, batch 12".
        Cost: one Spark job, none without items.
        """

    def by_key(
        self,
        items: pa.Table,
        read: Kernel,
        rows_schema: pa.Schema,
        key: str,
        kernel: KeyedKernel,
        schema: pa.Schema,
        step: str,
    ) -> pa.Table:
        """Run a kernel once for each key among the rows that ``read`` yields of the items; return all that it returns.

        ``key``: a column of whole numbers in ``rows_schema``, never null: numbers of buckets, of which one table has
        some hundred at most, as each is packed by itself. The rows of a key come to its kernel in no
        particular order, and the keys' results in none either. Cost: one Spark job with a shuffle, none without items;
        memory: the rows of one key for each core.
        """
