"""A process that appends one row to a table, to be killed on the way."""

from __future__ import annotations

import sys
from pathlib import Path

from lakehouse.storage.tables import table_commits

if __name__ == "__main__":
    table_commits.append(Path(sys.argv[1]), [{"n": 1}], ("w", 0))
