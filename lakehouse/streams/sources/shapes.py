"""Texts of flows as the shape says them, whatever the exporter's words: ``lakehouse/declare/presets/flow.toml``."""

from __future__ import annotations

from itertools import chain

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.streams.sources.protocols import IP_PROTOCOLS, WITH_PORTS

_CLOCK = r"^(?:(\d+)d )?(\d+):(\d\d):(\d\d(?:\.\d+)?)$"


def as_flow(fields: Column) -> Column:
    """Return a struct of texts with ``proto`` as a lower-case name, and ports only where the protocol has them."""
    said = F.lower(fields["proto"])
    names = F.create_map(*(F.lit(text) for text in chain.from_iterable(_protocols())))
    proto = F.coalesce(names[said], said)
    for port in ("src_port", "dst_port"):
        fields = fields.withField(port, F.when(proto.isin(*WITH_PORTS), fields[port]))
    return fields.withField("proto", proto)


def as_seconds(text: Column) -> Column:
    """Return seconds as text, of seconds or of ``[1d ]02:03:04.005`` as nfdump writes them for people."""
    days, hours, minutes, seconds = (F.regexp_extract(text, _CLOCK, group) for group in range(1, 5))
    whole = F.coalesce(days.try_cast("bigint"), F.lit(0)) * 86_400
    whole = whole + hours.try_cast("bigint") * 3_600 + minutes.try_cast("bigint") * 60
    return F.when(text.rlike(_CLOCK), (whole + seconds.try_cast("decimal(18,9)")).cast("string")).otherwise(
        text
    )


def _protocols() -> list[tuple[str, str]]:
    return [(str(number), name) for number, name in IP_PROTOCOLS.items()]
