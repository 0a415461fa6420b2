"""Parquet files of tables, wherever these are: read, written and put together to a dataset by Arrow.

Of this machine's files each is what Arrow does by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from lakehouse.storage.stores.store_path import Location, StorePath

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds


def source(path: Location) -> Any:
    """Return what Arrow reads a file from. Raises FileNotFoundError when it is not there."""
    stores, name = _place(path)
    return stores.open_input_file(name) if stores else path


@contextmanager
def sink(path: Location) -> Iterator[Any]:
    """Give what Arrow writes a file to, which is there after the block."""
    stores, name = _place(path)
    with stores.open_output_stream(name) if stores else nullcontext(path) as file:
        yield file


def dataset(paths: Sequence[Location], schema: pa.Schema | None = None) -> ds.Dataset:
    """Return the rows of some files, all in a folder or all on a store."""
    import pyarrow.dataset as ds

    places = [_place(path) for path in paths]
    stores = places[0][0] if places else None
    return ds.dataset([name for _, name in places], schema, format="parquet", filesystem=stores)


def _place(path: Location) -> tuple[Any, str]:
    """Return Arrow's way to the store of a file, None for a file of this machine, and how it is named there."""
    if not isinstance(path, StorePath):
        return None, str(path)
    from lakehouse.storage.stores.store_files import arrow_filesystem

    return arrow_filesystem(path.address.scheme), str(path).partition("://")[2]
