from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from urllib.request import Request

import pytest

from lakehouse.web.events.posting import post


def _drip(listening: socket.socket) -> None:
    taken, _ = listening.accept()
    with taken, suppress(OSError):
        taken.recv(65_536)
        taken.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            taken.sendall(b"X-A: b\r\n")
            time.sleep(0.1)


@pytest.mark.slow
def test_a_receiver_that_sends_a_byte_now_and_then_is_cut_off() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_drip, args=(listening,), daemon=True).start()
        began = time.monotonic()

        with pytest.raises(OSError):
            post(Request(f"http://127.0.0.1:{listening.getsockname()[1]}/", b"{}"), 1.0)

    assert 0.5 < time.monotonic() - began < 5
