r"""Names of files as tables hold them: UTF-8, where the bytes of a name are none, its other bytes as ``\xNN``."""

from __future__ import annotations

import os
import re

_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")


def told(path: str) -> str:
    """Return the name of a file that is there, as tables hold it; ``on_disk`` leads back.

    Of a name that is not UTF-8 backslashes are escaped too, and all else where another file has what comes out.
    """
    name = os.fsencode(path)
    try:
        return name.decode()
    except UnicodeDecodeError:
        escaped = name.replace(b"\\", b"\\x5c").decode("utf-8", "backslashreplace")
    if not os.path.lexists(escaped):
        return escaped
    folder, _, last = name.rpartition(b"/")
    return told(os.fsdecode(folder) + "/") + "".join(f"\\x{byte:02x}" for byte in last)


def on_disk(path: str) -> str:
    """Return what a file is opened by that tables hold under a name."""
    if "\\x" not in path or os.path.lexists(path):
        return path
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), os.fsencode(path)))
