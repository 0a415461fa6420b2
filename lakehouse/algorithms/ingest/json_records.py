"""Records of JSON documents, each on a line of its own: what a reader of one object a line takes.

    {"type": "FeatureCollection", "features": [{"id": 1}, {"id": 2,      ->      {"id": 1}
      "name": "b"}]}                                                             {"id": 2,  "name": "b"}

A document is cut where it stands, byte by byte, so numbers and texts stay as they are spelled, and a document of any
size needs the memory of a block. Lists in the list are opened too. Blanks and line ends between the parts of a record
become single blanks; in a text they are not JSON, and stay.

Cost: O(bytes). Guarantee: the records of a document do not depend on how it is cut into blocks.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

# What is being read: the way to the records, a list of them, one of them, or what is no JSON document.
_SEARCH, _LIST, _RECORD, _STRAY = range(4)
# What becomes of a byte.
_SKIP, _KEEP, _END, _KEEP_AND_END = range(4)
# The state: brackets that are open; inside a text, and behind a backslash of it; what is being read; the depth of the
# innermost list whose items are records, and of the outermost; keys of the path that have led here, and whether into
# an object; whether a key of it comes next, how far the text is the key wanted (-1: not at all), and whether its
# value comes next; whether a line has begun; whether there were any records, and anything but blanks.
_DEPTH, _TEXT, _ESCAPED, _MODE, _BASE, _FIRST, _MATCHED, _OBJECT, _KEY, _AT, _VALUE, _BEGUN, _FOUND, _ANY = (
    range(14)
)
_QUOTE, _BACKSLASH, _COMMA, _NEWLINE, _BLANK = 34, 92, 44, 10, 32
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = 123, 125, 91, 93


class JsonRecords:
    """Cutter of one document, block by block; ``path``: the keys that lead to its records, none for the whole of it."""

    def __init__(self, path: tuple[str, ...] = ()) -> None:
        keys = [key.encode() for key in path]
        self._keys = np.frombuffer(b"".join(keys), np.uint8)
        self._ends = np.cumsum([0, *map(len, keys)]).astype(np.int64)
        self._state = np.zeros(14, np.int64)

    def lines(self, block: bytes) -> bytes:
        """Return what a block adds to the lines; the last one may go on in the next block."""
        content = np.frombuffer(block, np.uint8)
        out: npt.NDArray[np.uint8] = np.empty(2 * len(content), np.uint8)
        return out[: _cut(content, self._state, self._keys, self._ends, out)].tobytes()

    @property
    def is_open(self) -> bool:
        """True if the document cannot end here."""
        return bool(self._state[_DEPTH] or self._state[_TEXT])

    @property
    def lacks_records(self) -> bool:
        """True if there is a document, but nothing where its records should be."""
        return bool(self._state[_ANY] and not self._state[_FOUND])


@njit(cache=True)
def _cut(content: Any, state: Any, keys: Any, ends: Any, out: Any) -> Any:
    size, at, length = 0, 0, len(content)
    while at < length:
        if state[_TEXT] and state[_BEGUN] and not state[_ESCAPED]:
            # Most bytes of a record are within its texts.
            while at < length and content[at] != _QUOTE and content[at] != _BACKSLASH:
                out[size] = content[at]
                size, at = size + 1, at + 1
            if at == length:
                break
        byte, at = content[at], at + 1
        if state[_TEXT]:
            fate = _read_text(byte, state, keys, ends)
        elif byte <= _BLANK:
            fate = _read_blank(byte, state)
            byte = np.uint8(_BLANK)
        else:
            state[_ANY] = 1
            fate = _search(byte, state, len(ends) - 1) if state[_MODE] == _SEARCH else _read_part(byte, state)
        if fate in (_KEEP, _KEEP_AND_END):
            out[size], state[_BEGUN] = byte, 1
            size += 1
        if fate in (_END, _KEEP_AND_END) and state[_BEGUN]:
            out[size], state[_BEGUN] = _NEWLINE, 0
            size += 1
    return size


@njit(cache=True)
def _read_text(byte: Any, state: Any, keys: Any, ends: Any) -> Any:
    """Read a byte of a text; of one that may be a key of the path, compare it."""
    if state[_ESCAPED]:
        state[_ESCAPED] = 0
    elif byte == _BACKSLASH:
        state[_ESCAPED] = 1
    elif byte == _QUOTE:
        state[_TEXT] = 0
    if state[_MODE] != _SEARCH:
        return _KEEP
    if state[_KEY]:
        begin = ends[state[_MATCHED]]
        length = ends[state[_MATCHED] + 1] - begin
        if not state[_TEXT]:
            state[_VALUE], state[_KEY] = state[_AT] == length, 0
        elif 0 <= state[_AT] < length and keys[begin + state[_AT]] == byte:
            state[_AT] += 1
        else:
            state[_AT] = -1
    return _SKIP


@njit(cache=True)
def _read_blank(byte: Any, state: Any) -> Any:
    if state[_MODE] == _STRAY and byte == _NEWLINE:
        state[_MODE] = _SEARCH
        return _END
    return _KEEP if state[_BEGUN] else _SKIP


@njit(cache=True)
def _search(byte: Any, state: Any, wanted: Any) -> Any:
    """Read a byte on the way to the records; ``wanted``: how many keys lead there."""
    is_reached = state[_VALUE] and state[_MATCHED] + 1 == wanted if wanted else state[_DEPTH] == 0
    if is_reached and byte in (_OPEN, _OPEN_LIST):
        state[_FOUND], state[_VALUE] = 1, 0
        if byte == _OPEN:
            state[_MODE], state[_BASE] = _RECORD, state[_DEPTH]
        state[_DEPTH] += 1
        if byte == _OPEN_LIST:
            state[_MODE], state[_BASE], state[_FIRST] = _LIST, state[_DEPTH], state[_DEPTH]
        return _KEEP if byte == _OPEN else _SKIP
    if not wanted:
        state[_MODE] = _STRAY
        return _KEEP
    if byte == _QUOTE:
        state[_TEXT], state[_AT] = 1, 0
        state[_KEY] = state[_KEY] and state[_OBJECT] and state[_DEPTH] == state[_MATCHED] + 1
    elif byte in (_OPEN, _OPEN_LIST):
        state[_MATCHED] += state[_VALUE] and byte == _OPEN
        state[_DEPTH] += 1
        if state[_DEPTH] == state[_MATCHED] + 1:
            state[_OBJECT] = byte == _OPEN
        state[_KEY], state[_VALUE] = 1, 0
    elif byte in (_CLOSE, _CLOSE_LIST):
        state[_DEPTH] = max(state[_DEPTH] - 1, 0)
        state[_MATCHED] = min(state[_MATCHED], max(state[_DEPTH] - 1, 0))
    elif byte == _COMMA:
        state[_KEY], state[_VALUE] = 1, 0
    return _SKIP


@njit(cache=True)
def _read_part(byte: Any, state: Any) -> Any:
    """Read a byte of a record, or of the list around it."""
    if state[_MODE] == _STRAY:
        return _KEEP
    is_between = state[_MODE] == _LIST and state[_DEPTH] == state[_BASE]
    if byte == _QUOTE:
        state[_TEXT] = 1
    elif is_between and byte == _COMMA:
        return _END
    elif is_between and byte == _OPEN_LIST and not state[_BEGUN]:
        state[_DEPTH] += 1
        state[_BASE] += 1
        return _SKIP
    elif byte in (_OPEN, _OPEN_LIST):
        state[_DEPTH] += 1
    elif byte in (_CLOSE, _CLOSE_LIST):
        state[_DEPTH] -= 1
        if is_between:
            state[_BASE] -= 1
            state[_MODE] = _LIST if state[_BASE] >= state[_FIRST] else _SEARCH
            return _END
        if state[_MODE] == _RECORD and state[_DEPTH] == state[_BASE]:
            state[_MODE] = _SEARCH
            return _KEEP_AND_END
    return _KEEP
