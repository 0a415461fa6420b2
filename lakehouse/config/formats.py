"""Formats of sources: their names, texts that mean "no value" in each, and which of them are read as JSON."""

from typing import Literal

_Usual = Literal["csv", "ndjson", "json", "xml", "zeek", "parquet", "avro", "pcap", "nfdump"]
Format = Literal[_Usual, "influx", "prometheus", "remote-write", "otlp", "nmea"]
# Forms of their own that are read as objects of JSON with texts as their values: lines, and files that are one record.
LINES = ("influx", "prometheus", "otlp", "nmea")
WHOLE = ("remote-write",)
SPELT = (*LINES, *WHOLE)
# Documents of which each record becomes such an object on a line.
DOCUMENTS = ("json", "xml")
AS_JSON = ("ndjson", *DOCUMENTS, *SPELT)
# Formats that name no value by null lack it by an empty text.
NULLS_BY_FORMAT = {
    "csv": ("", "NA", "N/A", "NULL", "null"),
    **dict.fromkeys(("zeek", "ndjson", "json", "parquet", "avro"), ()),
    **dict.fromkeys(("nfdump", "pcap", "xml", *SPELT), ("",)),
}
