"""Line of a configuration that rejected records do not meet."""

from collections.abc import Mapping

from lakehouse.config.stream import Stream
from lakehouse.config.toml_lines import nearest_line

_KEYS = {
    "malformed": "source.format",
    "bad_utf8": "source.encoding",
    "too_long": "source.max_record_bytes",
    "missing_column": "columns",
    "no_items": "source.explode",
    "no_event_time": "event_time",
    "bad_event_time": "event_time",
    "ambiguous_time": "event_time.timezone",
    "skipped_time": "event_time.timezone",
    "out_of_bounds": "event_time_bounds",
    "bad_arrival_time": "arrival_time",
    "clock": "clock_bounds",
}


def declared_line(stream: Stream, reason: str, detail: str, lines: Mapping[str, int]) -> int | None:
    """Return the line of the key that a record with this verdict does not meet, or of the innermost table around it.

    ``lines``: the line of each key of the configuration; None where none of them is the stream's.
    """
    key = _KEYS.get(reason, "source")
    if reason.startswith("rule_"):
        key = _rule(stream, reason.removeprefix("rule_"))
    elif reason == "bad_value":
        key = _column(stream, detail.partition(" is ")[0])
    return nearest_line(f"streams.{stream.name}.{key}", lines)


def _rule(stream: Stream, name: str) -> str:
    names = [rule.name for rule in stream.rules]
    return f"rules.{names.index(name)}" if name in names else "rules"


def _column(stream: Stream, path: str) -> str:
    known = (name for name, column in stream.columns.items() if path in (name, column.path))
    return f"columns.{next(known, '')}"
