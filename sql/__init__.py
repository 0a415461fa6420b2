"""SQL kept as files: what one row of each table is, and the analysts' macros and views."""

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    """Return the text of a file below ``sql``, such as ``tables/raw``. A process reads each once.

    Raises FileNotFoundError when there is no such file.
    """
    return files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
