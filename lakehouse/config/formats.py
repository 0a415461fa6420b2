"""Formats of sources: their names, texts that mean "no value" in each, and which of them are read as JSON."""

from typing import Literal

_Usual = Literal["csv", "ndjson", "json", "xml", "zeek", "parquet", "avro", "pcap", "nfdump"]
Format = Literal[_Usual, "influx", "prometheus", "otlp", "nmea"]
# Lines of forms of their own that are read as objects of JSON with texts as their values.
SPELT = ("influx", "prometheus", "otlp", "nmea")
# Documents of which each record becomes such an object on a line.
DOCUMENTS = ("json", "xml")
AS_JSON = ("ndjson", *DOCUMENTS, *SPELT)
# Formats that name no value by null lack it by an empty text.
NULLS_BY_FORMAT = {
    "csv": ("", "NA", "N/A", "NULL", "null"),
    **dict.fromkeys(("zeek", "ndjson", "json", "parquet", "avro"), ()),
    **dict.fromkeys(("nfdump", "pcap", "xml", *SPELT), ("",)),
}
