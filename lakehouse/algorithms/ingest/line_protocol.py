r"""Lines of InfluxDB's line protocol, each as an object of JSON, whose values are the texts as they stand.

    air,room=a temp=21.5,n=3i 1769904000000000000    ->    {"measurement":"air","tags":{"room":"a"},
                                                            "fields":{"temp":"21.5","n":"3"},"time":"1769904000000000000"}

In names and tags a backslash stands before a comma, an equals sign or a blank that is none of the syntax; in texts in
quotes before a quote or a backslash. Whole numbers lose their i or u.

Cost: O(bytes).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Bytes = npt.NDArray[np.uint8]
_COMMA, _EQUALS, _BLANK, _QUOTE, _BACKSLASH, _MINUS, _ZERO, _NINE = b',= "\\-09'
_I, _U, _FIRST_LETTER = ord("i"), ord("u"), 32
# Bytes that a letter becomes at most, and those around the parts of a line.
_ESCAPED, _AROUND = 6, 64
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_BEGIN = np.frombuffer(b'{"measurement":"', np.uint8)
_TAGS = np.frombuffer(b'","tags":{', np.uint8)
_FIELDS = np.frombuffer(b'},"fields":{', np.uint8)
_TIME = np.frombuffer(b'},"time":"', np.uint8)
_IS = np.frombuffer(b'":"', np.uint8)
_END = np.frombuffer(b'"}', np.uint8)
_CONTROL = np.frombuffer(b"\\u00", np.uint8)


def as_json(letters: Bytes, offsets: npt.NDArray[np.int64]) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """Return lines as JSON, one behind the other, and where each begins, and the last ends; wrong ones are empty."""
    out: Bytes = np.empty(_ESCAPED * len(letters) + _AROUND * len(offsets), np.uint8)
    ends = np.zeros(len(offsets), np.int64)
    _convert(letters, offsets, out, ends)
    return out[: ends[-1]], ends


@njit(cache=True)
def _convert(letters: Any, offsets: Any, out: Any, ends: Any) -> None:
    for line in range(len(offsets) - 1):
        size = _line(letters, offsets[line], offsets[line + 1], out, ends[line])
        ends[line + 1] = ends[line] if size < 0 else size


@njit(cache=True)
def _line(letters: Any, begin: Any, end: Any, out: Any, size: Any) -> Any:
    """Write a line, and return where it ends, or -1 if it is none of the protocol."""
    at, size = _text(letters, begin, end, False, out, _put(out, size, _BEGIN))
    if at in (begin, end):
        return -1
    size = _put(out, size, _TAGS)
    if letters[at] == _COMMA:
        at, size = _pairs(letters, at + 1, end, False, out, size)
    if at < 0:
        return -1
    at = _behind_blanks(letters, at, end)
    at, size = _pairs(letters, at, end, True, out, _put(out, size, _FIELDS))
    if at < 0:
        return -1
    size = _put(out, size, _TIME)
    at = _behind_blanks(letters, at, end)
    while at < end and (_ZERO <= letters[at] <= _NINE or letters[at] == _MINUS):
        out[size] = letters[at]
        at, size = at + 1, size + 1
    return _put(out, size, _END) if _behind_blanks(letters, at, end) == end else -1


@njit(cache=True)
def _pairs(letters: Any, at: Any, end: Any, are_fields: Any, out: Any, size: Any) -> Any:
    """Write names with their values up to a blank or the end, and return where these end; -1 if they are none."""
    while True:
        begin = at
        out[size] = _QUOTE
        at, size = _text(letters, at, end, True, out, size + 1)
        if at == begin or at >= end or letters[at] != _EQUALS:
            return -1, size
        begin = at = at + 1
        size = _put(out, size, _IS)
        if are_fields and at < end and letters[at] == _QUOTE:
            at, size = _quoted(letters, at + 1, end, out, size)
        else:
            at, size = _text(letters, at, end, False, out, size)
            if at == begin:
                return -1, size
            is_number = _ZERO <= letters[begin] <= _NINE or letters[begin] == _MINUS
            if are_fields and is_number and (letters[at - 1] == _I or letters[at - 1] == _U):
                size -= 1
        out[size] = _QUOTE
        size += 1
        if at == end or at < 0 or letters[at] == _BLANK:
            return at, size
        if letters[at] != _COMMA:
            return -1, size
        out[size] = _COMMA
        at, size = at + 1, size + 1


@njit(cache=True)
def _text(letters: Any, at: Any, end: Any, is_name: Any, out: Any, size: Any) -> Any:
    """Write a text without quotes, up to a comma or blank, or of a name also an equals sign."""
    while at < end:
        byte = letters[at]
        if byte == _BACKSLASH and at + 1 < end and letters[at + 1] in (_COMMA, _EQUALS, _BLANK):
            at += 1
            byte = letters[at]
        elif byte in (_COMMA, _BLANK) or (is_name and byte == _EQUALS):
            break
        size = _letter(byte, out, size)
        at += 1
    return at, size


@njit(cache=True)
def _quoted(letters: Any, at: Any, end: Any, out: Any, size: Any) -> Any:
    """Write a text up to the quote that ends it, and return what is behind that, -1 if none does."""
    while at < end and letters[at] != _QUOTE:
        if letters[at] == _BACKSLASH and at + 1 < end and letters[at + 1] in (_QUOTE, _BACKSLASH):
            at += 1
        size = _letter(letters[at], out, size)
        at += 1
    return (at + 1 if at < end else -1), size


@njit(cache=True)
def _letter(byte: Any, out: Any, size: Any) -> Any:
    if byte < _FIRST_LETTER:
        size = _put(out, size, _CONTROL)
        out[size], out[size + 1] = _HEX[byte >> 4], _HEX[byte & 15]
        return size + 2
    if byte in (_QUOTE, _BACKSLASH):
        out[size] = _BACKSLASH
        size += 1
    out[size] = byte
    return size + 1


@njit(cache=True)
def _put(out: Any, size: Any, part: Any) -> Any:
    for byte in part:
        out[size] = byte
        size += 1
    return size


@njit(cache=True)
def _behind_blanks(letters: Any, at: Any, end: Any) -> Any:
    while at < end and letters[at] == _BLANK:
        at += 1
    return at
