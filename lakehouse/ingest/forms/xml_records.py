"""Records of XML documents, each an object of JSON on a line of its own, block by block.

    <gpx creator="x"><trk><name>A</name><trkseg><trkpt lat="48.1"><ele>5</ele></trkpt> ...
        ->  {"lat": "48.1", "ele": "5", "trk": {"name": "A"}, "gpx": {"creator": "x"}}

Members are attributes and elements by their names without prefixes; an element that comes again in its record becomes a
list, and one with attributes has its letters as ``text``. Of each element around the record its attributes, and the
elements in it that came before and hold nothing deeper, stand under its name; of several of one name the last.

Expat reads the document. One with a document type is refused, as entities are defined there; so are elements too deep
in each other, and names too many. Memory: a block and a record. Cost: Python for each element.
"""

import json
from typing import Any
from xml.parsers import expat

_PIECE_BYTES = 256 * 1024
_DEEPEST, _MOST_NAMES, _MOST_AROUND = 200, 10_000, 100
# What Python's message of an error at the end begins with where the document is cut off.
_CUT_OFF = ("no element found", "unclosed token", "unclosed CDATA section", "partial character")
Members = dict[str, Any]


class XmlRecords:
    """Cutter of one document; ``path``: names of elements that lead from its root to a record, the last one's own.

    ``longest``: the letters that a record may have.
    """

    def __init__(self, path: tuple[str, ...], longest: int) -> None:
        self._path, self._longest = path, longest
        # Elements that are open: name, members and texts of each.
        self._open: list[tuple[str, Members, list[str]]] = []
        self._on_path = self._size = self._fed = 0
        self._lines: list[str] = []
        self._found, self._fault = False, ""
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._refuse

    def lines(self, block: bytes, is_last: bool = False) -> bytes:
        """Return the records that a block ends, a line each; none behind what cannot be read."""
        self._lines = []
        try:
            for at in range(0, len(block) or is_last, _PIECE_BYTES):
                if not self._fault:
                    self._read(block[at : at + _PIECE_BYTES], is_last)
        except (ValueError, LookupError, expat.ExpatError) as error:
            is_cut = str(error).startswith(_CUT_OFF)
            self._fault = f"{'truncated_file' if is_cut else 'malformed'}: the XML document: {error}"
        return "".join(self._lines).encode()

    def _read(self, piece: bytes, is_last: bool) -> None:
        self._fed += len(piece)
        self._parser.Parse(piece, is_last)
        # What expat keeps of a tag that has not ended.
        if self._fed - self._parser.CurrentByteIndex > self._longest + _PIECE_BYTES:
            raise ValueError(f"a tag of more than {self._longest} bytes (max_record_bytes)")

    def close(self) -> str:
        """Return what is wrong with the document, as a fault, nothing where all is well."""
        self.lines(b"", is_last=True)
        if self._fault or self._found:
            return self._fault
        path = ".".join(self._path)
        return f"malformed: the XML document has no element at {path!r} (record_path)"

    def _refuse(self, *_: Any) -> None:
        raise ValueError("it has a document type, which may define entities; expected none")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        depth = len(self._open)
        if depth >= _DEEPEST or len(self._parser.intern) > _MOST_NAMES:
            raise ValueError(f"more than {_DEEPEST} elements in each other, or {_MOST_NAMES} names")
        name = _own(name)
        is_on_path = self._on_path == depth < len(self._path) and name == self._path[depth]
        self._on_path += is_on_path
        if is_on_path or not self._is_inside:
            self._size = 0
        self._grow(len(name) + sum(map(len, attributes.values())))
        self._open.append(
            (name, {_own(n): v for n, v in attributes.items() if not n.startswith("xmlns")}, [])
        )

    def _text(self, text: str) -> None:
        # Around records, texts are those of elements beside the path.
        if self._is_inside or len(self._open) == self._on_path + 1:
            self._grow(len(text))
            self._open[-1][2].append(text)

    def _end(self, _: str) -> None:
        name, members, texts = self._open.pop()
        depth, is_record = len(self._open), self._is_inside and len(self._open) + 1 == len(self._path)
        text = "".join(texts).strip(" \t\r\n")
        value: Any = members | ({"text": text} if text else {}) if members else text
        if is_record:
            around = {each: known for each, known, _ in self._open}
            record = around | (value if isinstance(value, dict) else {name: value})
            self._lines.append(json.dumps(record, ensure_ascii=False) + "\n")
            self._found = True
        elif self._is_inside:
            _add(self._open[-1][1], name, value)
        elif value and depth == self._on_path > 0 and len(self._open[-1][1]) < _MOST_AROUND:
            self._open[-1][1][name] = value
        self._on_path = min(self._on_path, depth)

    @property
    def _is_inside(self) -> bool:
        return self._on_path == len(self._path)

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self._longest:
            raise ValueError(f"a record of more than {self._longest} letters (max_record_bytes)")


def _own(name: str) -> str:
    return name.rpartition(":")[2]


def _add(members: Members, name: str, value: Any) -> None:
    """Add an element to a record, to a list if one of its name is there."""
    if name not in members:
        members[name] = value
    elif isinstance(members[name], list):
        members[name].append(value)
    else:
        members[name] = [members[name], value]
