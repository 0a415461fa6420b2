"""The packets of a capture, from bytes that come in blocks. Called by ingest/sources/packets.py."""
