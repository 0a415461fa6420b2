"""Messages that the MQTT bridge landed: the payload as text, and what is in the envelope around it.

``lakehouse/home/envelope.py`` says what a landed line is.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.declare.columns import TOPIC_LEVEL

_ENVELOPE = (
    "array<struct<topic string, payload string, payload_base64 string, received string, retain string>>"
)


def with_payload(lines: DataFrame) -> DataFrame:
    """Make ``text`` the payload, and add ``envelope``; a line that is no message has a ``fault``.

    The text is null where the payload's bytes are none.
    """
    found = F.from_json(F.concat(F.lit("["), "text", F.lit("]")), _ENVELOPE)
    one = F.get(found, F.lit(0))
    opened = lines.withColumn("envelope", F.when((F.size(found) == 1) & one["topic"].isNotNull(), one))
    expected = F.lit("malformed: expected a message as the bridge writes it")
    fault = F.when(F.col("text").isNotNull() & F.col("envelope").isNull(), expected)
    return opened.withColumns({"fault": F.coalesce("fault", fault), "text": F.col("envelope.payload")})


def with_envelope_fields(cut: DataFrame, paths: Mapping[str, str]) -> DataFrame:
    """Add to the fields ``f`` those of the envelope, by name and path, and take the envelope away."""
    texts = (F.trim(_envelope_text(path)).alias(name) for name, path in paths.items())
    return cut.withColumn("f", F.struct("f.*", *texts)).drop("envelope")


def _envelope_text(path: str) -> Column:
    if path.startswith(TOPIC_LEVEL):
        return F.get(F.split("envelope.topic", "/"), F.lit(int(path.removeprefix(TOPIC_LEVEL))))
    if path == "$payload":
        return F.coalesce("envelope.payload", "envelope.payload_base64")
    return F.col(f"envelope.{path.removeprefix('$')}")


def said(record: Column) -> Column:
    """Return the bytes that make two messages the same: topic and payload; when they were received is no part.

    A text and the bytes whose base64 it is have names of their own, so that neither is taken for the other.
    """
    parts = (
        F.get_json_object(record.cast("string"), f"$.{part}").alias(part)
        for part in ("topic", "payload", "payload_base64")
    )
    return F.to_json(F.struct(*parts)).cast("binary")
