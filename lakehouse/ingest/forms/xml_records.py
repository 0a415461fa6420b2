"""Records of XML documents, each an object of JSON on a line of its own, block by block.

    <gpx creator="x"><trk><name>A</name><trkseg><trkpt lat="48.1"><ele>5</ele></trkpt> ...
        ->  {"gpx": {"creator": "x"}, "trk": {"name": "A"}, "trkseg": {}, "lat": "48.1", "ele": "5"}

Members are attributes and elements by their names without prefixes; an element that comes again in its record becomes a
list, and one with attributes has its letters as ``text``. Of each element around the record its attributes, and the
elements in it that came before stand under its name: what they hold, or of those with elements their attributes; of
several of one name the last. Of elements with the name of records only those on the way count.

A kernel makes JSON of plain records first. Expat reads what is left, and a tree builder, compiled as well, keeps it;
records are taken out of the tree, and what is beside them is pruned. A document with a document type is refused, as
entities are defined there; so are elements too deep in each other, and names too many. Memory: a block and a record.
Cost: some Python for each element of a record that is not plain.
"""

import json
from collections import deque
from json.encoder import encode_basestring
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

_PIECE_BYTES = 64 * 1024
_DEEPEST, _MOST_NAMES, _MOST_AROUND = 200, 10_000, 100
_BLANKS = " \t\r\n"
# No element of a document has this name.
_RUN = "\0"
# What Python's message of an error at the end begins with where the document is cut off.
_CUT_OFF = ("no element found", "unclosed token", "unclosed CDATA section", "partial character")
Members = dict[str, Any]
_encoded = json.JSONEncoder(ensure_ascii=False).encode


class _Names(dict[str, str]):
    """Names of elements and attributes without their prefixes; of marks and declared prefixes the empty one."""

    def __missing__(self, name: str) -> str:
        self[name] = own = "" if name.startswith("xmlns") else name.rpartition(":")[2]
        return own


class XmlRecords:
    """Cutter of one document; ``path``: names of elements that lead from its root to a record, the last one's own.

    ``longest``: the letters that a record may have which does not end in the piece in which it begins.
    """

    def __init__(self, path: tuple[str, ...], longest: int) -> None:
        self._path, self._longest, self._names = path, longest, _Names()
        self._tree = TreeBuilder()
        # Around the root, so that a mark has a place behind that.
        self._root = self._tree.start("", {})
        # The elements that lead to the next record, and what is known of each.
        self._around: list[tuple[Element, Members]] = []
        # The same as JSON by name, once a record needs it.
        self._known: dict[str, str] = {}
        # The record, or the text beside records, that is still open, and its size.
        self._growing: Element | None = None
        self._size = self._fed = self._at = 0
        self._lines: list[str] = []
        self._found, self._fault = False, ""
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._tree.start
        self._parser.EndElementHandler = self._tree.end
        self._parser.CharacterDataHandler = self._tree.data
        self._parser.StartDoctypeDeclHandler = _refuse
        self._parser.ProcessingInstructionHandler = self._keep_run
        # What compiles loads slowly: only those who have documents wait for it.
        from lakehouse.algorithms.ingest.xml_runs import PlainRuns

        self._runs = deque[str]()
        has_way = len(path) > 1 and path[-1] not in path[:-1]
        self._plain = PlainRuns(path[-1], path[:-1]) if has_way else None

    def lines(self, block: bytes, is_last: bool = False) -> bytes:
        """Return the records that a block ends, a line each; none behind what cannot be read."""
        self._lines = []
        for at in range(0, len(block) or is_last, _PIECE_BYTES):
            if not self._fault:
                self._read(block[at : at + _PIECE_BYTES], is_last)
        return "".join(self._lines).encode()

    def close(self) -> str:
        """Return what is wrong with the document, as a fault, nothing where all is well."""
        self.lines(b"", is_last=True)
        if self._fault or self._found:
            return self._fault
        path = ".".join(self._path)
        return f"malformed: the XML document has no element at {path!r} (record_path)"

    def _keep_run(self, *_: str) -> None:
        # Behind the document's own instructions there are no runs.
        if self._runs:
            self._tree.start(_RUN, {_RUN: self._runs.popleft()})
            self._tree.end(_RUN)

    def _read(self, piece: bytes, is_last: bool) -> None:
        if self._plain is not None:
            piece, runs = self._plain.take(piece, is_last)
            self._runs.extend(runs)
        faults = list[Exception]()
        for step in (lambda: self._parser.Parse(piece, is_last), lambda: self._take(len(piece))):
            try:
                step()
            except (ValueError, LookupError, expat.ExpatError) as error:
                faults.append(error)
        if faults:
            is_cut = str(faults[0]).startswith(_CUT_OFF)
            self._fault = f"{'truncated_file' if is_cut else 'malformed'}: the XML document: {faults[0]}"

    def _take(self, fed: int) -> None:
        """Take out of the tree what a piece added.

        Raises ValueError when there is more than a document may have.
        """
        opened = self._opened()
        if len(opened) > _DEEPEST or len(self._parser.intern) > _MOST_NAMES:
            raise ValueError(f"more than {_DEEPEST} elements in each other, or {_MOST_NAMES} names")
        before, self._at = self._at, max(self._parser.CurrentByteIndex, self._at)
        self._take_from(self._root, 0, opened)
        self._bound(opened, self._at - before)
        self._fed += fed
        # What expat keeps of a tag that has not ended.
        if self._fed - self._at > self._longest + _PIECE_BYTES:
            raise ValueError(f"a tag of more than {self._longest} bytes (max_record_bytes)")

    def _opened(self) -> list[Element]:
        """Return the elements that have not ended, the outermost first."""
        mark = self._tree.start("", {})
        self._tree.end("")
        opened = [self._root]
        while (last := opened[-1][-1]) is not mark:
            opened.append(last)
        return opened

    def _take_from(self, holder: Element, depth: int, opened: list[Element]) -> None:
        """Take the records out of an element that leads to them, and note what else is there."""
        ahead = opened[depth + 1] if len(opened) > depth + 1 else None
        name, is_last = self._path[depth], depth + 1 == len(self._path)
        for child in holder:
            own = self._names[child.tag]
            if own == _RUN:
                self._take_run(child, is_last)
            elif own != name:
                if depth and own not in ("", self._path[-1]) and child is not ahead:
                    self._note(own, child, depth)
            elif not is_last:
                self._enter(child, own, depth)
                self._take_from(child, depth + 1, opened)
            elif child is not ahead:
                self._lines.append(self._line(child, own))
                self._found = True
        del holder[: -1 if ahead is not None else len(holder)]

    def _take_run(self, run: Element, is_on_path: bool) -> None:
        """Take the records of a run, which are none beside the way to records."""
        if is_on_path:
            around = ", ".join([f'"{name}": {known}' for name, known in self._around_as_json().items()])
            self._lines.append(run.attrib[_RUN].replace("\0", "{" + around))
            self._found = True

    def _enter(self, element: Element, name: str, depth: int) -> None:
        if len(self._around) > depth and self._around[depth][0] is element:
            return
        del self._around[depth:]
        self._around.append((element, self._attributes(element)))
        self._known = {}

    def _note(self, name: str, element: Element, depth: int) -> None:
        """Note an element beside records."""
        is_plain = all(not each.tag for each in element)
        value = self._value(element, depth) if is_plain else self._attributes(element)
        known = self._around[depth - 1][1]
        if value and len(known) < _MOST_AROUND:
            known[name] = value
            self._known = {}

    def _bound(self, opened: list[Element], fed: int) -> None:
        """Bound what is still open; of an element beside records that holds others only attributes are kept."""
        led = [self._root, *(element for element, _ in self._around)]
        beyond = [element for element in opened if all(element is not each for each in led)]
        if not beyond:
            self._growing = None
            return
        first = beyond[0]
        is_record = len(opened) - len(beyond) == len(self._path) and self._names[first.tag] == self._path[-1]
        if not is_record and any(each.tag for each in first):
            first.text = None
            for element in beyond:
                del element[: -1 if element is not beyond[-1] else len(element)]
            return
        self._size = self._size + fed if first is self._growing else _letters(first)
        self._growing = first
        if self._size > self._longest:
            raise ValueError(f"a record of more than {self._longest} letters (max_record_bytes)")

    def _line(self, element: Element, name: str) -> str:
        value = self._value(element, len(self._path))
        members = value if isinstance(value, dict) else {name: value}
        own = {
            each: encode_basestring(part) if part.__class__ is str else _encoded(part)
            for each, part in members.items()
        }
        return (
            "{"
            + ", ".join([f'"{each}": {part}' for each, part in (self._around_as_json() | own).items()])
            + "}\n"
        )

    def _around_as_json(self) -> dict[str, str]:
        if not self._known:
            self._known = {self._names[each.tag]: _encoded(known) for each, known in self._around}
        return self._known

    def _value(self, element: Element, depth: int) -> Any:
        """Return what an element holds: members, or letters."""
        if depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} elements in each other")
        members, text = self._attributes(element), element.text or ""
        for child in element:
            if child.tag == _RUN:
                for one in _members_of(child):
                    _add(members, self._path[-1], one)
            elif name := self._names[child.tag]:
                has_more = len(child) or child.keys()
                value = self._value(child, depth + 1) if has_more else (child.text or "").strip(_BLANKS)
                _add(members, name, value)
            if child.tail:
                text += child.tail
        text = text.strip(_BLANKS)
        return members | ({"text": text} if text else {}) if members else text

    def _attributes(self, element: Element) -> Members:
        return {name: text for given, text in element.items() if (name := self._names[given])}


def _refuse(*_: Any) -> None:
    raise ValueError("it has a document type, which may define entities; expected none")


def _members_of(run: Element) -> list[Members]:
    return [json.loads("{" + line[2:]) for line in run.attrib[_RUN].splitlines()]


def _letters(element: Element) -> int:
    parts = ((each.tag, each.text or "", each.tail or "", *each.attrib.values()) for each in element.iter())
    return sum(len(text) for some in parts for text in some)


def _add(members: Members, name: str, value: Any) -> None:
    """Add an element to a record, to a list if one of its name is there."""
    if name not in members:
        members[name] = value
    elif isinstance(members[name], list):
        members[name].append(value)
    else:
        members[name] = [members[name], value]
