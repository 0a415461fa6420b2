"""Parquet files of tables, wherever these are: read, written and put together to a dataset by Arrow.

Of this machine's files each is what Arrow does by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakehouse.storage.stores.store_path import Location, StorePath

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds


def source(path: Location) -> Any:
    """Return what Arrow reads a file from. Raises FileNotFoundError when it is not there."""
    if not isinstance(path, StorePath):
        return path
    from lakehouse.storage.stores.store_files import arrow_filesystem

    return arrow_filesystem(path.address.scheme).open_input_file(_key(path))


@contextmanager
def sink(path: Location) -> Iterator[Any]:
    """Give what Arrow writes a file to, which is there after the block."""
    if not isinstance(path, StorePath):
        yield path
        return
    from lakehouse.storage.stores.store_files import arrow_filesystem

    with arrow_filesystem(path.address.scheme).open_output_stream(_key(path)) as file:
        yield file


def write(rows: pa.Table, path: Location, **options: Any) -> None:
    """Write a file."""
    import pyarrow.parquet as pq

    with sink(path) as file:
        pq.write_table(rows, file, **options)


def dataset(paths: Sequence[Location], schema: pa.Schema | None = None) -> ds.Dataset:
    """Return the rows of some files, all in a folder or all on a store."""
    import pyarrow.dataset as ds

    if not paths or not isinstance(paths[0], StorePath):
        return ds.dataset([str(path) for path in paths], schema, format="parquet")
    from lakehouse.storage.stores.store_files import arrow_filesystem

    filesystem = arrow_filesystem(paths[0].address.scheme)
    return ds.dataset([*map(_key, paths)], schema, format="parquet", filesystem=filesystem)


def _key(path: Location) -> str:
    """Return the bucket and key of an object, which is how Arrow names it."""
    return str(path).partition("://")[2]
