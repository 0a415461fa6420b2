"""Names of what IP and Ethernet carry: one word per protocol, whoever exported it."""

# By IANA's number. Zeek says icmp for both versions; nfdump writes them in capitals.
IP_PROTOCOLS = {
    1: "icmp",
    2: "igmp",
    4: "ipip",
    6: "tcp",
    17: "udp",
    33: "dccp",
    41: "ipv6",
    47: "gre",
    50: "esp",
    51: "ah",
    58: "icmp6",
    88: "eigrp",
    89: "ospf",
    103: "pim",
    112: "vrrp",
    115: "l2tp",
    132: "sctp",
    136: "udplite",
}
_ETHERTYPES = {0x0806: "arp", 0x8035: "rarp", 0x888E: "eapol", 0x88CC: "lldp"}
# Below this the field is a length, and what follows is LLC.
_LEAST_ETHERTYPE = 0x0600
# Those that have ports. Other exporters put ICMP's type and code where ports stand.
WITH_PORTS = ("tcp", "udp", "dccp", "sctp", "udplite")


def protocol_name(number: int) -> str:
    """Return the word for what IP carries; its number as text where we have none.

    >>> protocol_name(6), protocol_name(254)
    ('tcp', '254')
    """
    return IP_PROTOCOLS.get(number, str(number))


def ethertype_name(number: int) -> str:
    """Return the word for a frame that carries no IP.

    >>> ethertype_name(0x0806), ethertype_name(0x88B5), ethertype_name(38)
    ('arp', '0x88b5', 'llc')
    """
    return "llc" if number < _LEAST_ETHERTYPE else _ETHERTYPES.get(number, f"{number:#06x}")
