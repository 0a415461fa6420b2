"""State of a service for systemd (``Type=notify``); nothing is sent where systemd did not ask."""

import os
import socket
from contextlib import suppress


def notify(*words: str) -> None:
    """Send words such as ``READY=1`` to the socket that NOTIFY_SOCKET names; failures are ignored."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # An address that begins with @ is in the abstract namespace.
    target = "\0" + address[1:] if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as messages:
        messages.sendto("\n".join(words).encode(), target)
