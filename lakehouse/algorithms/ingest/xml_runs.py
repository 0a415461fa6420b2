"""Runs of plain records of an XML document -> their members as JSON; a mark as long as each in what is left of it.

    <trkpt lat="48.1"><ele> 5 </ele></trkpt>
    <trkpt lat="48.2"/>                            ->  NUL, "lat": "48.1", "ele": "5"}
    <name>A</name> ...                                 NUL, "lat": "48.2"}        and  <?r ... ?><name>A</name> ...

A record is *plain* if it is one element of the name with attributes, and elements that hold a text each, or elements
of a text each: all of ASCII, without entities, backslashes, quotes and control characters, each name once in its
element and none that is reserved. Such an element is well formed, so what is left of a document is well formed where
the document is, and faults stay in their places. Nothing is said of any other record.

Comments and sections of CDATA stay as they are. Behind one that does not end in its block, behind a document type and
behind an instruction of the document's own, everything stays: all instructions before are marks. Cost: O(bytes).
Memory: a block, and a record that goes on in the next one.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Letters = npt.NDArray[np.uint8]
# A record that is longer than so much is not waited for.
_LONGEST, _MOST_MEMBERS, _MOST_RUNS = 64 * 1024, 64, 1 << 16
_LESS, _GREATER, _SLASH, _BANG, _QUESTION, _EQUALS, _COLON, _BRACKET = 60, 62, 47, 33, 63, 61, 58, 93
_QUOTE, _APOSTROPHE, _BACKSLASH, _AND, _NEWLINE, _BLANK, _OPENED, _DELETE = 34, 39, 92, 38, 10, 32, 123, 127
# What a record can be beside plain, in place of where it ends.
_OTHER, _OPEN = -1, -2
# Of an element that begins with another one, where a text would end.
_HOLDS = -3
_DASHES, _SECTION, _SECTION_END, _DECLARED, _XMLNS = (
    np.frombuffer(text, np.uint8) for text in (b"-->", b"<![CDATA[", b"]]>", b"<?xml ", b"xmlns")
)
_MARK, _MARK_END = np.frombuffer(b"<?r", np.uint8), np.frombuffer(b"?>", np.uint8)
_COMMENT = np.frombuffer(b"<!--", np.uint8)
# The letters of names that are looked at.
_NAMED = np.isin(np.arange(256), list(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-:"))
_BEGIN, _MEMBER, _VALUE, _END = (np.frombuffer(text, np.uint8) for text in (b"\0", b', "', b'": "', b"}\n"))


class PlainRuns:
    """Taker of the plain records of one document, block by block, of elements of a name.

    ``reserved``: names that no member may have.
    """

    def __init__(self, name: str, reserved: tuple[str, ...]) -> None:
        names = [name.encode(), *(each.encode() for each in reserved)]
        self._names = np.frombuffer(b"".join(names), np.uint8)
        self._ends = np.cumsum([0, *map(len, names)]).astype(np.int64)
        self._open, self._is_off = b"", False

    def take(self, block: bytes, is_last: bool) -> tuple[bytes, list[str]]:
        """Return what is left of a block, with a mark for each run, and the members of the records of each run."""
        block, self._open = self._open + block, b""
        if self._is_off:
            return block, []
        content = np.frombuffer(block, np.uint8)
        left: Letters = np.empty(len(content), np.uint8)
        # An element of four letters, <a/>, becomes a member of nine.
        out: Letters = np.empty(len(content) * 3 + 64, np.uint8)
        ends = np.empty(_MOST_RUNS, np.int64)
        at, size, runs, self._is_off = _cut(content, self._names, self._ends, left, out, ends)
        self._open = block[at:]
        rest = left[:size].tobytes()
        if self._is_off or is_last or len(self._open) > _LONGEST:
            rest, self._open = rest + self._open, b""
        text = out[: ends[runs - 1] if runs else 0].tobytes().decode("ascii")
        bounds = [0, *ends[:runs].tolist()]
        return rest, [text[begin:end] for begin, end in pairwise(bounds)]


@njit(cache=True)
def _cut(content: Any, names: Any, name_ends: Any, left: Any, out: Any, ends: Any) -> Any:
    """Return how far the block was read, the sizes of what is left and of runs, and whether the rest is to stay."""
    at, size, marked, runs, length = 0, 0, 0, 0, len(content)
    # ``marked``: where the mark of the last run ends so far, 0 where anything but blanks came behind it.
    while at < length:
        byte = content[at]
        if marked and (byte == _BLANK or 9 <= byte <= 10 or byte == 13):
            left[size] = byte
            size, at = size + 1, at + 1
            continue
        end = at + 1
        if byte == _LESS:
            done = ends[runs - 1] if runs else 0
            end = _passed(content, at)
            if end == _OTHER:
                break
            if end == at and (marked or runs < len(ends)):
                end, done = _record(content, at, names, name_ends, out, done)
                if end == _OPEN:
                    break
                if end != _OTHER:
                    runs += marked == 0
                    ends[runs - 1] = done
                    size = _put_mark(content, at, end, left, size, marked > 0)
                    at, marked = end, size
                    continue
            end = max(end, at + 1)
        if marked:
            _put(left, marked - 2, _MARK_END, 0, 2)
            marked = 0
        size = _put(left, size, content, at, end)
        at = end
    if marked:
        _put(left, marked - 2, _MARK_END, 0, 2)
    return at, size, runs, at < length and _passed(content, at) == _OTHER


@njit(cache=True)
def _put_mark(content: Any, at: Any, end: Any, left: Any, size: Any, goes_on: Any) -> Any:
    """Put a mark as long as a record, with its line ends, or more of the mark before."""
    begin = size
    for place in range(at, end):
        left[size] = content[place] if content[place] == _NEWLINE else _BLANK
        size += 1
    if not goes_on:
        _put(left, begin, _MARK, 0, 3)
    return size


@njit(cache=True)
def _passed(content: Any, at: Any) -> Any:
    """Return where a comment, section or declaration ends, the same place for none, _OTHER where that is not seen."""
    if at + 1 == len(content) or content[at + 1] not in (_BANG, _QUESTION):
        return at
    if _is_at(content, at, _DECLARED):
        return _found(content, at, _MARK_END)
    if _is_at(content, at, _COMMENT):
        return _found(content, at + 4, _DASHES)
    if _is_at(content, at, _SECTION):
        return _found(content, at + len(_SECTION), _SECTION_END)
    return _OTHER


@njit(cache=True)
def _is_at(content: Any, at: Any, text: Any) -> Any:
    if at + len(text) > len(content):
        return False
    return _is_equal(content, at, text, 0, len(text))


@njit(cache=True)
def _is_equal(content: Any, at: Any, text: Any, begin: Any, end: Any) -> Any:
    place = begin
    while place < end and content[at + place - begin] == text[place]:
        place += 1
    return place == end


@njit(cache=True)
def _found(content: Any, at: Any, text: Any) -> Any:
    """Return the end of a text in what follows."""
    while at < len(content):
        if content[at] == text[0] and _is_at(content, at, text):
            return at + len(text)
        at += 1
    return _OTHER


@njit(cache=True)
def _put(out: Any, size: Any, text: Any, begin: Any, end: Any) -> Any:
    for place in range(begin, end):
        out[size] = text[place]
        size += 1
    return size


@njit(cache=True)
def _name(content: Any, at: Any) -> Any:
    """Return where a name ends, and where it begins without its prefix; nothing is one if it begins with a digit."""
    begin = at
    if at < len(content) and (48 <= content[at] <= 57 or content[at] == 45 or content[at] == 46):
        return at, at
    while at < len(content) and _NAMED[content[at]]:
        if content[at] == _COLON:
            begin = at + 1
        at += 1
    return at, begin


@njit(cache=True)
def _blanks(content: Any, at: Any) -> Any:
    while at < len(content) and (content[at] == _BLANK or 9 <= content[at] <= 10 or content[at] == 13):
        at += 1
    return at


@njit(cache=True)
def _record(content: Any, at: Any, names: Any, name_ends: Any, out: Any, size: Any) -> Any:
    """Return where the record that may begin here ends, and the size of what is put out with it."""
    tag_end, tag = _name(content, at + 1)
    if tag_end >= len(content):
        return _OPEN, size
    if not _is_named(content, tag, tag_end, names, name_ends, 0):
        return _OTHER, size
    begins, count = np.empty((_MOST_MEMBERS, 2), np.int64), 0
    size = _put(out, size, _BEGIN, 0, 1)
    place = tag_end
    while True:
        after = _blanks(content, place)
        if after + 1 >= len(content):
            return _OPEN, size
        if content[after] == _SLASH or content[after] == _GREATER:
            break
        name_end, name = _name(content, after)
        quote = name_end + 1
        if name_end == after or after == place or _is_at(content, after, _XMLNS):
            return _OTHER, size
        if quote >= len(content):
            return _OPEN, size
        if content[name_end] != _EQUALS or content[quote] not in (_QUOTE, _APOSTROPHE):
            return _OTHER, size
        end = _plain(content, quote + 1, content[quote])
        if end < 0:
            return end, size
        size = _member(content, name, name_end, quote + 1, end, out, size)
        count = _counted(out, size, name_end - name, end - quote - 1, begins, count, names, name_ends)
        if count < 0:
            return _OTHER, size
        place = end + 1
    if content[after] == _SLASH:
        if content[after + 1] != _GREATER or count == 0:
            return _OTHER, size
        return after + 2, _put(out, size, _END, 0, 2)
    return _elements(content, at + 1, tag_end, after + 1, begins, count, names, name_ends, out, size)


@njit(cache=True)
def _elements(
    content: Any,
    tag: Any,
    tag_end: Any,
    place: Any,
    begins: Any,
    count: Any,
    names: Any,
    name_ends: Any,
    out: Any,
    size: Any,
) -> Any:
    """Read the elements in a record, up to its end."""
    while True:
        place = _blanks(content, place)
        if place + 1 >= len(content) or content[place] != _LESS:
            return (_OPEN if place + 1 >= len(content) else _OTHER), size
        if content[place + 1] == _SLASH:
            end = _closed(content, place + 2, content, tag, tag_end)
            if end < 0 or count == 0:
                return (end if end < 0 else _OTHER), size
            return end, _put(out, size, _END, 0, 2)
        place, name, name_end, begin, end = _text(content, place)
        if place == _HOLDS:
            before = size
            place, size = _nested(content, name, name_end, begin, end, names, name_ends, out, size)
            end = begin + size - before - 8 - (name_end - name)
        elif place > 0:
            size = _member(content, name, name_end, begin, end, out, size)
        if place < 0:
            return place, size
        count = _counted(out, size, name_end - name, end - begin, begins, count, names, name_ends)
        if count < 0:
            return _OTHER, size


@njit(cache=True)
def _text(content: Any, place: Any) -> Any:
    """Return where an element ends that holds a text, and where its name and its text begin and end.

    Of one that holds elements, _HOLDS, and where its tag's name begins and what it holds.
    """
    name_end, name = _name(content, place + 1)
    after = _blanks(content, name_end)
    begin = end = after + 1
    if after + 1 >= len(content):
        return _OPEN, name, name_end, begin, end
    if name_end == place + 1 or name == name_end or _is_at(content, place + 1, _XMLNS):
        return _OTHER, name, name_end, begin, end
    is_empty = content[after] == _SLASH and content[after + 1] == _GREATER
    if is_empty or content[after] != _GREATER:
        return (after + 2 if is_empty else _OTHER), name, name_end, begin, end
    begin = _blanks(content, begin)
    end = _plain(content, begin, _LESS)
    if end < 0 or end + 1 >= len(content):
        return (end if end < 0 else _OPEN), name, name_end, begin, end
    if content[end + 1] != _SLASH:
        return (_HOLDS if begin == end else _OTHER), name, name_end, place + 1, end
    closed = _closed(content, end + 2, content, place + 1, name_end)
    while end > begin and content[end - 1] <= _BLANK:
        end -= 1
    for letter in range(begin, end):
        if content[letter] < _BLANK:
            closed = _OTHER
    return closed, name, name_end, begin, end


@njit(cache=True)
def _nested(
    content: Any,
    name: Any,
    name_end: Any,
    tag: Any,
    place: Any,
    names: Any,
    name_ends: Any,
    out: Any,
    size: Any,
) -> Any:
    """Return where an element of elements of a text each ends, and the size of what is put out with it."""
    begins, count = np.empty((_MOST_MEMBERS, 2), np.int64), 0
    size = _put(out, size, _MEMBER, 0, 3)
    size = _put(out, size, content, name, name_end)
    opened = size + 2
    size = _put(out, size, _VALUE, 0, 2)
    while True:
        place = _blanks(content, place)
        if place + 1 >= len(content) or content[place] != _LESS:
            return (_OPEN if place + 1 >= len(content) else _OTHER), size
        if content[place + 1] == _SLASH:
            # In the place of what would part the first member from one before it.
            out[opened], out[opened + 1] = _BLANK, _OPENED
            out[size] = _END[0]
            return _closed(content, place + 2, content, tag, name_end), size + 1
        place, own, own_end, begin, end = _text(content, place)
        if place < 0:
            return (_OTHER if place == _HOLDS else place), size
        size = _member(content, own, own_end, begin, end, out, size)
        count = _counted(out, size, own_end - own, end - begin, begins, count, names, name_ends)
        if count < 0:
            return _OTHER, size


@njit(cache=True)
def _plain(content: Any, at: Any, last: Any) -> Any:
    """Return where a text ends that needs no escape; line ends are those around a text of an element."""
    while at < len(content):
        byte = content[at]
        if byte == last:
            return at
        is_end = last == _LESS and (9 <= byte <= 10 or byte == 13)
        if byte >= _DELETE or (byte < _BLANK and not is_end):
            return _OTHER
        if byte in (_AND, _LESS, _QUOTE, _BACKSLASH, _BRACKET):
            return _OTHER
        at += 1
    return _OPEN


@njit(cache=True)
def _closed(content: Any, at: Any, names: Any, begin: Any, end: Any) -> Any:
    """Return where the tag ends that closes an element of a name."""
    for place in range(begin, end):
        if at >= len(content):
            return _OPEN
        if content[at] != names[place]:
            return _OTHER
        at += 1
    at = _blanks(content, at)
    if at >= len(content):
        return _OPEN
    return at + 1 if content[at] == _GREATER else _OTHER


@njit(cache=True)
def _member(content: Any, name: Any, name_end: Any, begin: Any, end: Any, out: Any, size: Any) -> Any:
    size = _put(out, size, _MEMBER, 0, 3)
    size = _put(out, size, content, name, name_end)
    size = _put(out, size, _VALUE, 0, 4)
    size = _put(out, size, content, begin, end)
    out[size] = _QUOTE
    return size + 1


@njit(cache=True)
def _counted(
    out: Any, size: Any, name: Any, value: Any, begins: Any, count: Any, names: Any, name_ends: Any
) -> Any:
    """Return how many members there are with the last one, -1 where that is reserved, there already or one too many."""
    begin = size - 5 - value - name
    if count == _MOST_MEMBERS or name == 0:
        return -1
    for each in range(count):
        if begins[each, 1] == name and _is_equal(out, begin, out, begins[each, 0], begins[each, 0] + name):
            return -1
    for each in range(1, len(name_ends) - 1):
        if _is_named(out, begin, begin + name, names, name_ends, each):
            return -1
    begins[count, 0], begins[count, 1] = begin, name
    return count + 1


@njit(cache=True)
def _is_named(content: Any, begin: Any, end: Any, names: Any, ends: Any, number: Any) -> Any:
    if end - begin != ends[number + 1] - ends[number]:
        return False
    return _is_equal(content, begin, names, ends[number], ends[number + 1])
