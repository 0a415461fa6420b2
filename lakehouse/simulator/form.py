"""Lines of text of a stream's columns: Arrow joins whole columns, Python never sees a row.

Measures are whole numbers with a fixed count of decimals, so that their sums are known to the last digit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.simulator.arrays import booleans, constant, doubles, integers, strings
from lakehouse.simulator.faults import KINDS
from lakehouse.simulator.timeline import Ints, Timeline

ABSENT = np.iinfo(np.int64).min
GARBAGE = b"*** reset by watchdog, uptime 0 ***\n"
_BROKEN_CHARACTER = b"\xc3\x28"
_POINT = strings(["."])[0]


@dataclass(frozen=True)
class Form:
    """Form of one kind of stream.

    ``template`` alternates bytes, written as they are, with names of columns. ``measures`` gives each measure's
    decimals; ``spoiled`` is the measure that dirt hits, ``marked`` the text column that gets broken UTF-8.
    """

    stream: str
    suffix: str
    header: bytes
    template: tuple[bytes | str, ...]
    measures: dict[str, int]
    spoiled: str
    marked: str
    null: bytes
    word: bytes
    cut_at: int
    tick_us: int
    delays_ms: npt.NDArray[np.float64]
    timeline: Callable[[np.random.Generator, int, int, int, float, int], Timeline]
    columns: Callable[[np.random.Generator, Timeline, int, int], dict[str, Any]]
    times: Callable[[Ints], Any]


def lines(
    form: Form, columns: dict[str, Any], rows: Ints, event_us: Ints, received_us: Ints, kind: Ints
) -> Any:
    """Return the chosen rows as one Arrow array of lines with their ends. Cost: O(rows), vectorised."""
    texts = {name: _text(form, name, column, rows) for name, column in columns.items()}
    texts |= {"ts": form.times(event_us), "received": form.times(received_us)}
    _spoil(form, texts, kind)
    parts = [_binary(texts[part]) if isinstance(part, str) else constant(part) for part in form.template]
    whole = pc.binary_join_element_wise(*parts, constant(b""))
    cut = pc.binary_join_element_wise(pc.binary_slice(whole, 0, form.cut_at), constant(b"\n"), constant(b""))
    whole = pc.if_else(_is(kind, "truncated"), cut, whole)
    return pc.if_else(_is(kind, "garbage"), constant(GARBAGE), whole)


def joined_bytes(array: Any) -> memoryview:
    """Return the text of an Arrow array of lines as one piece, without copying it."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)
    low, high = offsets[array.offset], offsets[array.offset + len(array)]
    return memoryview(array.buffers()[2])[int(low) : int(high)]


def whole_number(values: Ints) -> Any:
    """Write integers."""
    return pc.cast(integers(values), pa.string())


def seconds(time_us: Ints) -> Any:
    """Write microseconds as seconds with six digits after the point."""
    whole, rest = np.divmod(time_us, 1_000_000)
    return pc.binary_join_element_wise(whole_number(whole), pc.utf8_lpad(whole_number(rest), 6, "0"), _POINT)


def milliseconds(time_us: Ints) -> Any:
    """Write microseconds as whole milliseconds."""
    return whole_number(time_us // 1000)


def hex_names(numbers: npt.NDArray[np.uint64]) -> Any:
    """Write 64-bit numbers as 16 hexadecimal digits."""
    pairs = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), "S2")
    digits = pairs[numbers.astype(">u8").view(np.uint8)]
    fixed = pa.Array.from_buffers(pa.binary(16), len(numbers), [None, pa.py_buffer(digits.tobytes())])
    return fixed.cast(pa.binary())


def _text(form: Form, name: str, column: Any, rows: Ints) -> Any:
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column.take(integers(rows))
    values = column[rows]
    text = _decimal(values, form.measures.get(name, 0))
    absent = values == ABSENT
    return pc.if_else(booleans(absent), constant(form.null), _binary(text)) if absent.any() else text


def _decimal(values: Ints, decimals: int) -> Any:
    return whole_number(values) if decimals == 0 else pc.cast(doubles(values / 10**decimals), pa.string())


def _spoil(form: Form, texts: dict[str, Any], kind: Ints) -> None:
    changes = (
        ("nan", form.spoiled, b"NaN"),
        ("null", form.spoiled, form.null),
        ("wrong_type", form.spoiled, form.word),
        ("no_time", "ts", form.null),
        ("bad_utf8", form.marked, _BROKEN_CHARACTER),
    )
    for name, column, text in changes:
        hit = _is(kind, name)
        if pc.any(hit).as_py():
            texts[column] = pc.if_else(hit, constant(text), _binary(texts[column]))


def _is(kind: Ints, name: str) -> Any:
    return booleans(kind == KINDS.index(name))


def _binary(array: Any) -> Any:
    return array if array.type == pa.binary() else array.cast(pa.binary())
