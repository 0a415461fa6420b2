"""The address that a server binds, checked before anybody reads of it."""

import errno
import re
import socket

from lakehouse.storage.layout import Home
from lakehouse.web.security.tokens import read_tokens

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class BindRefused(ValueError):
    """An address that cannot be answered at; the message says what is missing."""


def checked(layout: Home, bind: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``; only on the loopback may a home be without tokens.

    Raises BindRefused when it is no address, or not the loopback and the home has no token; or when nobody can be
    answered there, as where another process is.
    """
    found = re.fullmatch(r"(.+):(\d{1,5})", bind)
    if found is None or int(found[2]) > 65535:
        raise BindRefused(f"found {bind!r}; expected HOST:PORT such as 127.0.0.1:8417")
    host, port = found[1], int(found[2])
    if host not in LOOPBACK and not read_tokens(layout):
        raise BindRefused(f"{bind} is not the loopback: make a token first, with `tidemark token add NAME`")
    _check_free(host.strip("[]"), port)
    return host.strip("[]"), port


def _check_free(host: str, port: int) -> None:
    """Bind for a moment: whoever reads an address on the screen must not find another server there."""
    failed: list[OSError] = []
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise BindRefused(f"{host} is no address: {error.strerror}") from None
    for family, kind, protocol, _, address in places:
        try:
            with socket.socket(family, kind, protocol) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(address)
        except OSError as error:
            failed.append(error)
    # A name may stand for addresses of which this machine has some only.
    is_taken = any(error.errno == errno.EADDRINUSE for error in failed)
    if is_taken or len(failed) == len(places):
        said = "another process answers there" if is_taken else failed[-1].strerror
        raise BindRefused(f"{host}:{port} cannot be answered at: {said}")
