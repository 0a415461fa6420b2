"""Parquet files of tables, wherever these are: read, written and put together to a dataset by Arrow.

Of this machine's files each is what Arrow does by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.storage.tables.tables_place import is_on_store

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds


def source(path: Path) -> Any:
    """Return what Arrow reads a file from.

    Raises:
        FileNotFoundError: when it is not there.
    """
    if not is_on_store(path):
        return path
    from lakehouse.storage.stores.store_files import arrow_filesystem

    return arrow_filesystem(_scheme(path)).open_input_file(_key(path))


@contextmanager
def sink(path: Path) -> Iterator[Any]:
    """Give what Arrow writes a file to, which is there after the block."""
    if not is_on_store(path):
        yield path
        return
    from lakehouse.storage.stores.store_files import arrow_filesystem

    with arrow_filesystem(_scheme(path)).open_output_stream(_key(path)) as file:
        yield file


def write(rows: pa.Table, path: Path, **options: Any) -> None:
    """Write a file."""
    import pyarrow.parquet as pq

    with sink(path) as file:
        pq.write_table(rows, file, **options)


def dataset(paths: Sequence[Path], schema: pa.Schema | None = None) -> ds.Dataset:
    """Return the rows of some files, all in a folder or all on a store."""
    import pyarrow.dataset as ds

    if not paths or not is_on_store(paths[0]):
        return ds.dataset([str(path) for path in paths], schema, format="parquet")
    from lakehouse.storage.stores.store_files import arrow_filesystem

    filesystem = arrow_filesystem(_scheme(paths[0]))
    return ds.dataset([*map(_key, paths)], schema, format="parquet", filesystem=filesystem)


def _scheme(path: Path) -> str:
    return path.parts[0].removesuffix(":")


def _key(path: Path) -> str:
    return "/".join(path.parts[1:])
