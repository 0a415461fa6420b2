"""The fields of a record that a stream reads: stored columns, then the times under names of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from lakehouse.config.columns import Column, is_message_field
from lakehouse.config.lines import Unpivot
from lakehouse.config.stream import Stream
from lakehouse.config.times import TimeColumn
from lakehouse.ingest.sources.manifest import Layout

EVENT, ARRIVAL, PLUS = "_event", "_arrival", "_plus"
# Behind the name of a time: of its fallback. Before a name: its text as it stood in the record.
OTHER, SPELT = "_or", "_spelt_"
# Behind the name of a time: of the field with its zone, and of that with the time from which it counts.
ZONE, SINCE = "_zone", "_since"
# Before the name of a time: as the clocks of its zone show it.
LOCAL = "_local_"
# Before the path of a field that decides whether a record is one of the stream.
WHERE = "_where_"


def time_fields(name: str, time: TimeColumn) -> dict[str, str]:
    """Return the wanted fields of a time, of which the first has its own name, with their paths."""
    return {name if not number else f"{name}_{number}": path for number, path in enumerate(time.names)}


@dataclass(frozen=True)
class FieldMap:
    """Map of wanted fields to texts of a record."""

    fields: dict[str, Column]
    kind: str
    unpivot: Unpivot | None = None
    constants: frozenset[str] = frozenset()

    @staticmethod
    def of(stream: Stream) -> FieldMap:
        """Return the wanted fields of a stream."""
        fields = {name: _located(name, column) for name, column in stream.all_columns.items()}
        arrival = stream.arrival_time
        times: dict[str, str | None] = {PLUS: arrival.plus if arrival else None}
        for name, time in ((EVENT, stream.event_time), (ARRIVAL, arrival)):
            if time is not None:
                beside = {OTHER: time.fallback, ZONE: time.timezone_column, SINCE: time.since}
                times |= time_fields(name, time) | {name + end: field for end, field in beside.items()}
        for name, field in times.items():
            if field:
                fields[name] = fields.get(field, Column(path=field, optional=name.endswith(OTHER)))
        for path in stream.source.where_fields:
            fields[WHERE + path] = fields.get(path, Column(path=path))
        return FieldMap(fields, stream.source.kind, stream.source.unpivot, frozenset(stream.source.constants))

    @cached_property
    def of_messages(self) -> dict[str, str]:
        """Fields that stand beside the record in a message, with their paths."""
        paths = {name: self.path(name) for name in self.fields}
        return {name: path for name, path in paths.items() if is_message_field(path, self.kind)}

    @cached_property
    def of_files(self) -> dict[str, str]:
        """Fields that the file's path tells, with their regular expressions."""
        return {name: column.file for name, column in self.fields.items() if column.file is not None}

    @cached_property
    def of_heads(self) -> dict[str, str]:
        """Fields that the file's head tells, with the names of its constants."""
        return {name: self.path(name) for name in self.fields if self.path(name) in self.constants}

    @cached_property
    def of_records(self) -> FieldMap:
        """Fields that stand in the record itself."""
        beside = {**self.of_messages, **self.of_files, **self.of_heads, **self.of_items}
        return FieldMap({n: c for n, c in self.fields.items() if n not in beside}, self.kind, self.unpivot)

    @cached_property
    def of_items(self) -> dict[str, str]:
        """Fields that tell the name or the value of one of a wide record's fields: "name" or "value"."""
        if self.unpivot is None:
            return {}
        roles = {self.unpivot.name: "name", self.unpivot.value: "value"}
        return {name: roles[self.path(name)] for name in self.fields if self.path(name) in roles}

    def channels(self, layout: Layout) -> list[int]:
        """Return the places of a header's fields that are rows of their own."""
        if self.unpivot is None:
            return []
        read = {self.path(name) for name in self.fields} - {self.unpivot.name, self.unpivot.value}
        pattern = re.compile(self.unpivot.columns)
        return [n for n, name in enumerate(layout or ()) if name not in read and pattern.search(name)]

    def path(self, name: str) -> str:
        """Return the source's own name of a field."""
        return self.fields[name].path or name

    def places(self, layout: Layout) -> dict[str, int | None]:
        """Return the place of each field among those of a header, None where it is not there."""
        return {name: self._place(name, layout or ()) for name in self.fields}

    def _place(self, name: str, layout: tuple[str, ...]) -> int | None:
        position, path = self.fields[name].position, self.path(name)
        if position is not None:
            return position if position < len(layout) else None
        return layout.index(path) if path in layout else None


def _located(name: str, column: Column) -> Column:
    is_located = column.path or column.position is not None or column.file is not None
    return column if is_located else column.model_copy(update={"path": name})
