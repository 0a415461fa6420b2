"""Nodes that rules about keys keep between checks, so that a check reads what came since and not what came before.

    kept_nodes/<stream>/*.parquet      parts, with the tables: tasks write them
    checked/<stream>.nodes.json        by rule its parts, and the version of the rollup that they sum up

It is no more than a memory, as ``checked.py`` has: where a part is missing, or rows have left the rollup since, the
rule reads all nodes of its time again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lakehouse.storage.atomic_files import write_text
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location


@dataclass(frozen=True)
class Kept:
    """State of a rule: of one version of a rollup, whose table has an id, all that it needs from a time on.

    ``parts``: names of files. ``count``: of their rows.
    """

    table: str
    version: int
    since_us: int
    parts: Sequence[str]
    count: int


@dataclass(frozen=True)
class KeptNodes:
    """Store of what the rules of a stream keep, by what they depend on; one process at a time reads and writes it."""

    index: Path
    folder: Location

    @classmethod
    def of(cls, home: Home, stream: str) -> KeptNodes:
        """Return what a stream's rules keep."""
        return cls(home.kept_nodes_index(stream), home.kept_nodes(stream))

    def read(self) -> Mapping[str, Kept]:
        """Return what is kept, by rule; nothing of a rule of which a part is missing."""
        try:
            found = json.loads(self.index.read_text("utf-8"))
            kept = {rule: Kept(**of) for rule, of in found.items()}
        except (FileNotFoundError, ValueError, TypeError, AttributeError):
            return {}
        names = {path.name for path in self._there()}
        return {rule: of for rule, of in kept.items() if names >= {*of.parts}}

    def write(self, kept: Mapping[str, Kept]) -> None:
        """Keep this of the rules that there are; parts of others go."""
        self.index.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.index, json.dumps({rule: asdict(of) for rule, of in kept.items()}))
        crash_point("check.nodes-kept")
        named = {part for of in kept.values() for part in of.parts}
        for path in self._there():
            if path.name not in named:
                path.unlink(missing_ok=True)

    def _there(self) -> Sequence[Location]:
        return list(self.folder.glob("*.parquet")) if self.folder.is_dir() else []
