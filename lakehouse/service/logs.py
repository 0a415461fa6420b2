"""Log lines of a process: for people, or one JSON object each, so that a collector need not guess.

    {"at": "2026-01-05T06:00:00Z", "level": "INFO", "logger": "jobs.running.outcome", "message": "...", "job": "ingest"}

Values that come from the environment into options of a source never stand in a line: their variables' names do.
"""

import json
import logging
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import IO

from lakehouse.settings import Settings

VARIABLE = "TIDEMARK_LOG"
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_NAMED = re.compile(r"\$\{(\w+)\}")
_PLAIN = "%(asctime)s %(levelname)-7s %(message)s"


def set_up(settings: Settings, stream: IO[str], as_json: bool = False) -> None:
    """Send what this process logs from now on to a stream; ``TIDEMARK_LOG=json`` makes JSON of it too."""
    to_stream(stream, as_json, secrets_of(settings))
    # Its bridge tells of every connection it closes.
    logging.getLogger("py4j").setLevel(logging.WARNING)


def to_stream(stream: IO[str], as_json: bool = False, secrets: Mapping[str, str] | None = None) -> bool:
    """Send log lines to a stream, without secrets, as JSON where ``TIDEMARK_LOG`` says so, too; return if it is."""
    as_json = as_json or os.environ.get(VARIABLE, "").lower() == "json"
    handler = logging.StreamHandler(stream)
    form: logging.Formatter = JsonLines() if as_json else logging.Formatter(_PLAIN)
    handler.setFormatter(_Guarded(form, secrets or {}))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    return as_json


class JsonLines(logging.Formatter):
    """One line of JSON per record: time, level, logger, message, error, and every field given as ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {"at": at.replace("+00:00", "Z"), "level": record.levelname, "logger": record.name}
        fields["message"] = record.getMessage()
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        more = {name: value for name, value in vars(record).items() if name not in _OWN}
        return json.dumps({**more, **fields}, ensure_ascii=False, default=str)


class _Guarded(logging.Formatter):
    """Another formatter's lines, without secrets."""

    def __init__(self, form: logging.Formatter, secrets: Mapping[str, str]) -> None:
        super().__init__()
        self._form = form
        # The longest first: one may be part of another.
        self._secrets = sorted(secrets.items(), key=lambda item: -len(item[1]))

    def format(self, record: logging.LogRecord) -> str:
        """Return the line with the name of a variable wherever its value stood."""
        line = self._form.format(record)
        for name, secret in self._secrets:
            line = line.replace(secret, f"${{{name}}}")
        return line


def secrets_of(settings: Settings) -> dict[str, str]:
    """Return the values of the variables that options of sources name, and of those that hold a key of ours."""
    options = (value for stream in settings.streams.values() for value in stream.source.options.values())
    named = {name for value in options for name in _NAMED.findall(value)}
    named |= {name for name in os.environ if name.startswith("TIDEMARK_") and name.endswith("_KEY")}
    return {name: os.environ[name] for name in named if os.environ.get(name)}
