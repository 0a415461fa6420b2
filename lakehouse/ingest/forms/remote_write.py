"""Bodies of Prometheus' remote write -> their samples: a block of snappy around a request of protobuf.

    version 1   a series has its labels as texts
    version 2   all texts stand once in the request, and a series has their numbers, of names and values in turn

A message is read by its numbers of fields, as far as samples and labels are in it, and never deeper; exemplars,
histograms and metadata are skipped. What a length says is believed only within what there is: a body inflates to no
more than snappy can pack into its own size, and samples, and labels of one, are counted before they are kept.

Cost: Python for each label and sample.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from struct import error as struct_error
from struct import unpack
from typing import Any

import pyarrow as pa

_MOST_BYTES = 64 * 1024 * 1024
# Of three bytes snappy makes at most 64.
_MOST_RATIO = 22
# One more than a record may have of items, so that one with too many says so.
_MOST_SAMPLES, _MOST_LABELS, _MOST_SYMBOLS = 100_001, 1_000, 1_000_000
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_SIZES = {_EIGHT: 8, _FOUR: 4}
_SIGN, _ALL = 1 << 63, 1 << 64
# The NaN that says that a series has ended.
_STALE = bytes.fromhex("020000000000f07f")
_SERIES, _SYMBOL, _SERIES_BY_SYMBOLS = 1, 4, 5
Sample = dict[str, Any]


def samples_of(body: bytes) -> list[Sample]:
    """Return the samples of a body, each with the name and labels of its series.

    Raises ValueError when it is none, or is cut off.
    """
    size, _ = _varint(body, 0)
    if size > min(_MOST_BYTES, _MOST_RATIO * len(body)):
        raise ValueError(f"it says that it inflates to {size} bytes")
    try:
        content = pa.Codec("snappy").decompress(body, size, asbytes=True)
        return list(islice(_samples(content), _MOST_SAMPLES))
    except (OSError, pa.ArrowException, AttributeError, TypeError, struct_error) as error:
        raise ValueError(f"it is no block of snappy around a request: {error}") from None


def _samples(content: bytes) -> Iterator[Sample]:
    size, symbols = 0, _symbols(content)
    for number, series in _fields(content):
        is_series = number in (_SERIES, _SERIES_BY_SYMBOLS)
        for sample in _of_series(series, None if number == _SERIES else symbols) if is_series else ():
            size += sum(map(len, sample["labels"].values()))
            if size > _MOST_BYTES:
                raise ValueError("its samples have too many letters of labels")
            yield sample


def _symbols(content: bytes) -> list[bytes]:
    """Return the texts of a request, which may stand behind the series."""
    symbols = list(
        islice((text for number, text in _fields(content) if number == _SYMBOL), _MOST_SYMBOLS + 1)
    )
    if len(symbols) > _MOST_SYMBOLS:
        raise ValueError("it has too many symbols")
    return symbols


def _of_series(series: bytes, symbols: Sequence[bytes] | None) -> Iterator[Sample]:
    labels, samples, references = dict[str, str](), list[dict[int, Any]](), list[int]()
    for number, part in _fields(series):
        if number == 1 and symbols is None:
            label = dict(_fields(part))
            labels[label.get(1, b"").decode()] = label.get(2, b"").decode()
        elif number == 1:
            references += [part] if isinstance(part, int) else islice(_numbers(part), 2 * _MOST_LABELS + 2)
        if number == 2:
            samples.append(dict(_fields(part)))
        if max(len(labels), len(references) // 2) > _MOST_LABELS or len(samples) > _MOST_SAMPLES:
            raise ValueError("a series of it has too many labels or samples")
    labels |= _named(references, symbols or ())
    name = labels.pop("__name__", "")
    for sample in samples:
        value, time = sample.get(1, bytes(8)), sample.get(2, 0)
        yield {
            "name": name,
            "labels": labels,
            "value": repr(unpack("<d", value)[0]),
            "time": str(time - _ALL if time >= _SIGN else time),
            "stale": value == _STALE,
        }


def _named(references: Sequence[int], symbols: Sequence[bytes]) -> dict[str, str]:
    if len(references) % 2 or max(references, default=-1) >= len(symbols):
        raise ValueError("a series of it names symbols that it has not, or a label without a value")
    texts = [symbols[each].decode() for each in references]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _numbers(packed: bytes) -> Iterator[int]:
    at = 0
    while at < len(packed):
        number, at = _varint(packed, at)
        yield number


def _fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the numbers and values of the fields of a message: numbers, or bytes as they stand."""
    at, end = 0, len(content)
    while at < end:
        tag, at = _varint(content, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(content, at)
            yield number, value
            continue
        size, at = (_SIZES[kind], at) if kind in _SIZES else _varint(content, at)
        if kind not in (*_SIZES, _BYTES) or not number or at + size > end:
            raise ValueError("a field of it is cut off, or of no kind that protobuf has")
        yield number, content[at : at + size]
        at += size


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return a whole number of seven bits a byte, and where it ends."""
    value = 0
    for place in range(at, min(at + 10, len(content))):
        value |= (content[place] & 0x7F) << 7 * (place - at)
        if content[place] < 0x80:
            return value, place + 1
    raise ValueError("a number of it does not end")
