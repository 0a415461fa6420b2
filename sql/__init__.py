"""SQL kept as files: what one row of each table is, and the analysts' macros and views."""

from __future__ import annotations

from pathlib import Path


def statement(name: str) -> str:
    """Return the text of a file below ``sql``, such as ``tables/raw``.

    Raises:
        FileNotFoundError: when there is no such file.
    """
    return (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")
