"""One line of log for each question, and in a file of its own what a line has no room for.

    service/asked.jsonl    {"digest", "asked": [[name, value], ...]} of each question that its line does not hold whole

The line holds the first parameters, cut, how many there were and a digest of all: dummies before a statement hide
nothing. The file has at most twice ``FILE_BYTES``, in two parts of which the older one goes.
"""

import hashlib
import json
import logging
import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import Scope as Asgi

from lakehouse.storage.layout import Home
from lakehouse.web.security.tokens import Token

log = logging.getLogger(__name__)
audit = logging.getLogger("tidemark.audit")
FILE_BYTES = 64 * 1024**2
_SHOWN, _NAME, _VALUE, _PATH = 20, 100, 500, 500


class Audit:
    """Writes what is asked of a home's server."""

    def __init__(self, layout: Home) -> None:
        self._file = layout.service / "asked.jsonl"

    def note(self, scope: Asgi, status: int, seconds: float) -> None:
        """Log a request that has been answered."""
        found: Token | None = scope.get("token")
        asked = [
            (name, "***" if name == "token" else value)
            for name, value in (
                *parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True),
                *scope.get("asked", {}).items(),
            )
        ]
        whole = json.dumps(asked)
        shown = {name[:_NAME]: value[:_VALUE] for name, value in asked[:_SHOWN]}
        digest = hashlib.sha256(whole.encode()).hexdigest()[:32]
        line: dict[str, Any] = {
            "token": found.name if found else None,
            "method": scope["method"],
            "path": scope["path"][:_PATH],
            "asked": shown,
            "parameters": len(asked),
            "digest": digest,
            "status": status,
            "ms": round(1000 * seconds, 1),
        }
        audit.info("%s", json.dumps(line))
        # Whoever is refused, as without a token, fills no file.
        if list(shown.items()) != asked and found is not None and self._file is not None:
            _append(self._file, f'{{"digest": "{digest}", "asked": {whole}}}\n'.encode())


def _append(file: Path, line: bytes) -> None:
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        number = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(number, line)
            is_full = os.fstat(number).st_size > FILE_BYTES
        finally:
            os.close(number)
        if is_full:
            os.replace(file, file.with_suffix(".jsonl.1"))
    except OSError as error:
        log.error("%s cannot be written: %s", file, error.strerror)
