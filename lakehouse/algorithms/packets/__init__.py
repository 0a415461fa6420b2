"""The fields of packets in a capture, from bytes that come in blocks. Called by streams/sources/packets.py.

capture.py         the positions of packets in a pcap or pcapng stream, and their times
digest_kernels.py  a hash of each packet's bytes
headers.py         sender and receiver: addresses, protocol, ports
"""
