"""What packets of a capture file say, from bytes that come a block at a time. Called by streams/sources/packets.py.

capture.py         where packets lie in a pcap or pcapng stream, and when they were seen
capture_kernels.py its walks over records
digest_kernels.py  a hash of each packet's bytes
headers.py         who sent them to whom: addresses, protocol, ports
headers_kernels.py its walk through the headers of each packet
"""
