"""Texts as records have them -> texts of values: without blanks around them, null where they mean no value."""

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.packets.protocols import IP_PROTOCOLS, WITH_PORTS
from lakehouse.config.stream import Stream
from lakehouse.ingest.parser.field_map import FieldMap
from lakehouse.ingest.parser.spelt_values import spelt_values
from lakehouse.ingest.parser.texts import BLANKS
from lakehouse.ingest.sources.nfdump import as_seconds

# What Zeek writes where there is no value.
_UNSET = ("-", "(empty)")
# Where an empty field is no value, in quotes or not.
_WITHOUT_EMPTY = ("csv", "nfdump")
_NUMBERED = {str(number): name for number, name in IP_PROTOCOLS.items()}


def usual_texts(texts: Mapping[str, pa.Array], stream: Stream, fields: FieldMap) -> dict[str, pa.Array]:
    """Return the texts of values, of texts as the records of a stream have them, by name of the wanted field."""
    source = stream.source
    nulls = (*source.nulls, *(_UNSET if source.format == "zeek" else ()))
    nulls = (*nulls, "") if source.format in _WITHOUT_EMPTY else nulls
    result = {name: _known(pc.ascii_trim(text, BLANKS), nulls) for name, text in texts.items()}
    result |= spelt_values(result, stream)
    if source.format == "nfdump":
        result |= {name: as_seconds(text) for name, text in result.items() if fields.path(name) == "duration"}
    return _as_flow(result) if source.shape == "flow" else result


def _known(text: pa.Array, nulls: tuple[str, ...]) -> pa.Array:
    if not nulls:
        return text
    return pc.if_else(pc.is_in(text, pa.array(nulls, pa.string())), pa.scalar(None, pa.string()), text)


def _each(text: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """Return what becomes of texts: each different one is changed once."""
    encoded = text.dictionary_encode()
    changed = [change(each) for each in encoded.dictionary.to_pylist()]
    return pa.array(changed, pa.string()).take(encoded.indices)


def _as_flow(texts: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Return texts with ``proto`` as a lower-case name, and ports only where the protocol has them."""
    proto = _each(texts["proto"], lambda name: _NUMBERED.get(name.lower(), name.lower()))
    has_ports = pc.is_in(proto, pa.array(WITH_PORTS))
    ports = {
        name: pc.if_else(has_ports, texts[name], pa.scalar(None, pa.string()))
        for name in ("src_port", "dst_port")
    }
    return texts | ports | {"proto": proto}
