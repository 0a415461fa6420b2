"""Probes of ports: connections that were begun and not taken up, by what Zeek writes of each.

A history has a letter for each kind of packet, capitals are the sender's: S a SYN, h its answer, R a reset, F an end.
"""

import re

# A SYN or less of the sender's, and at most an answer or a reset; no payload (D) of anyone.
PROBE = re.compile(r"S?(h[rR]?|r|R|F)?", re.ASCII)
STATES = frozenset({"S0", "REJ", "RSTOS0", "RSTRH", "SH", "SHR"})


def looks_scanned(state: str | None, history: str | None) -> bool:
    """Return True for a probe; of a connection without a history, nothing is known."""
    return state in STATES and history is not None and PROBE.fullmatch(history) is not None
