"""The texts that stand beside the value of a message of a topic: its key, time, headers and place."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.columns import HEADER
from lakehouse.ingest.parser.plain_values import Mask

SCHEME = "kafka:"
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
MESSAGE = pa.struct([("key", pa.binary()), ("timestamp_ms", pa.int64()), ("headers", pa.list_(_HEADER))])


def message_texts(
    lines: Mapping[str, pa.Array], paths: Mapping[str, str]
) -> tuple[dict[str, pa.Array], Mask]:
    """Return the texts of fields by name, of their paths, and of which messages they are UTF-8."""
    result, is_valid = {}, np.ones(len(lines["source_file"]), np.bool_)
    for name, path in paths.items():
        text = _text(lines, path)
        if pa.types.is_binary(text.type):
            text, is_text = _decoded(text)
            is_valid &= is_text
        result[name] = text
    return result, is_valid


def _text(lines: Mapping[str, pa.Array], path: str) -> pa.Array:
    """Return the text, or bytes, that a path such as ``$key`` or ``$headers.NAME`` leads to."""
    if path.startswith(HEADER):
        return _header(pc.struct_field(lines["message"], "headers"), path.removeprefix(HEADER))
    if path == "$key":
        return pc.struct_field(lines["message"], "key")
    if path == "$timestamp":
        return pc.struct_field(lines["message"], "timestamp_ms").cast(pa.string())
    if path == "$offset":
        return lines["source_line"].cast(pa.string())
    files = lines["source_file"].dictionary_encode()
    parts = [file.removeprefix(SCHEME).split("/") for file in files.dictionary.to_pylist()]
    number = 0 if path == "$topic" else 1
    texts = [part[number] if number < len(part) else None for part in parts]
    return pa.array(texts, pa.string()).take(files.indices)


def _header(headers: pa.Array, name: str) -> pa.Array:
    """Return the value of a header; of several of one name the last counts."""
    parents, entries = pc.list_parent_indices(headers), pc.list_flatten(headers)
    is_named = pc.fill_null(pc.equal(pc.struct_field(entries, "key"), name), False)
    at = np.flatnonzero(is_named.to_numpy(zero_copy_only=False))
    places = np.full(len(headers), -1, np.int64)
    places[parents.to_numpy()[at]] = at
    return pc.struct_field(entries, "value").take(pa.array(places, mask=places < 0))


def _decoded(values: pa.Array) -> tuple[pa.Array, Mask]:
    """Return bytes as texts, and which of them are UTF-8."""
    try:
        return values.cast(pa.string()), np.ones(len(values), np.bool_)
    except pa.ArrowInvalid:
        texts = [_text_or_none(value) for value in values.to_pylist()]
        is_text = np.array([text is not None for text in texts]) | ~values.is_valid().to_numpy(False)
        return pa.array(texts, pa.string()), is_text


def _text_or_none(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
