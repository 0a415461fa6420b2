"""The packets of a capture, from bytes that come in blocks. Called by ingest/sources/packets.py.

capture.py   packets of a pcap or pcapng stream, with their times
headers.py   sender and receiver: addresses, protocol, ports
"""
