"""A server under hostile clients, which hold and waste connections, beside honest ones, which are timed.

    python -m tests.web.attack.soak PORT CLIENTS    hostile clients until a line comes in; prints how often they came

These are a process of their own, so that the times of honest ones are the server's and not theirs.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from lakehouse.web.security.tokens import OWN_TOKEN
from tests.support.servers import answers, free_port

TOKEN = "t" * 43
ROOT = Path(__file__).parents[3]
# Hostile clients come from another address of the loopback.
THEIRS, OURS = "127.0.0.2", "127.0.0.1"
_HEAD = b"Host: 127.0.0.1\r\n"


@dataclass
class Soaked:
    """What honest clients saw, without hostile ones and beside them, and what the server held before and after."""

    quiet_p95_ms: float
    p95_ms: float
    answered: int
    failed: int
    attempts: int
    descriptors: tuple[int, int]
    memory_mb: tuple[float, float]


@contextmanager
def web_of(home: Path) -> Iterator[psutil.Process]:
    """Give a process of ``tidemark web`` whose port is in its command line."""
    port = free_port()
    words = ["-m", "lakehouse.cli", "--home", str(home), "web", "--bind", f"{OURS}:{port}"]
    environment = os.environ | {OWN_TOKEN: TOKEN}
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(
        [sys.executable, *words], cwd=ROOT, env=environment, stdout=nowhere, stderr=nowhere
    ) as running:
        try:
            end = time.monotonic() + 60
            while not answers(port):
                assert time.monotonic() < end and running.poll() is None
                time.sleep(0.05)
            yield psutil.Process(running.pid)
        finally:
            running.terminate()


def soaked(home: Path, path: str, hostile: int, honest: int, seconds: float) -> Soaked:
    """Ask a server of a home for a path: first in quiet, then for so many seconds beside hostile clients."""
    with web_of(home) as process:
        port = int(process.cmdline()[-1].rpartition(":")[2])
        return asyncio.run(_soaked(process, port, path, hostile, honest, seconds))


async def _soaked(
    process: psutil.Process, port: int, path: str, hostile: int, honest: int, seconds: float
) -> Soaked:
    quiet, _ = await _honest(port, path, honest, seconds / 2)
    before = process.num_fds(), process.memory_info().rss / 1e6
    words = [sys.executable, "-m", __name__, str(port), str(hostile)]
    piped = subprocess.PIPE
    with subprocess.Popen(words, cwd=ROOT, stdin=piped, stdout=piped, stderr=subprocess.DEVNULL) as attackers:
        assert attackers.stdout is not None
        attackers.stdout.readline()
        await asyncio.sleep(min(1.0, seconds / 4))
        taken, failed = await _honest(port, path, honest, seconds)
        tries = int(attackers.communicate(b"\n")[0])
    await asyncio.sleep(2.0)
    after = process.num_fds(), process.memory_info().rss / 1e6
    held, memory = zip(before, after, strict=True)
    return Soaked(_p95(quiet), _p95(taken), len(taken), failed, tries, held, memory)


async def _attacked(port: int, clients: int) -> int:
    # They would be on other machines, and take no time of this one.
    os.nice(10)
    tries = [0]
    attackers = [asyncio.create_task(_hostile(port, seed, tries)) for seed in range(clients)]
    print("begun", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for attacker in attackers:
        attacker.cancel()
    await asyncio.gather(*attackers, return_exceptions=True)
    return tries[0]


def _p95(taken: list[float]) -> float:
    return round(1000 * sorted(taken)[int(0.95 * (len(taken) - 1))], 1)


async def _honest(port: int, path: str, clients: int, seconds: float) -> tuple[list[float], int]:
    """Ask again and again, each client on connections of its own; return the seconds of answers, and failures."""
    taken: list[float] = []
    failed, until = 0, time.monotonic() + seconds

    async def ask() -> None:
        nonlocal failed
        while time.monotonic() < until:
            began = time.monotonic()
            try:
                connecting = asyncio.open_connection(OURS, port, local_addr=(OURS, 0))
                reader, writer = await asyncio.wait_for(connecting, 30)
                writer.write(_request(path) + b"Connection: close\r\n\r\n")
                found = await asyncio.wait_for(reader.read(), 30)
                writer.close()
                failed += not found.startswith(b"HTTP/1.1 200")
            except OSError:
                failed += 1
            taken.append(time.monotonic() - began)
            await asyncio.sleep(0.05)

    await asyncio.gather(*(ask() for _ in range(clients)))
    return taken, failed


def _request(path: str, token: str = TOKEN) -> bytes:
    return b"GET " + path.encode() + b" HTTP/1.1\r\n" + _HEAD + f"Authorization: Bearer {token}\r\n".encode()


async def _hostile(port: int, seed: int, tries: list[int]) -> None:
    dice = random.Random(seed)
    sent = {
        "idle": b"",
        "half a head": b"GET / HTTP/1.1\r\nX-A: ",
        "long head": b"GET / HTTP/1.1\r\nX-A: " + b"a" * 60_000,
        "no token": _request("/latest/tidemark.duckdb", "x") + b"\r\n",
        "many parameters": b"GET /latest/ask.json?" + b"a=1&" * 10_000 + b" HTTP/1.1\r\n" + _HEAD + b"\r\n",
        "half a body": b"POST /latest/sql.json HTTP/1.1\r\n"
        + _HEAD
        + b"Content-Length: 900000\r\n\r\nSELECT",
        "no HTTP": bytes(dice.randrange(256) for _ in range(500)),
        "pipelined": (_request("/healthz") + b"\r\n") * 50,
    }
    while True:
        tries[0] += 1
        with suppress(OSError, asyncio.TimeoutError):
            _, writer = await asyncio.wait_for(
                asyncio.open_connection(OURS, port, local_addr=(THEIRS, 0)), 20
            )
            try:
                writer.write(sent[dice.choice(list(sent))])
                for _ in range(dice.randrange(1, 20)):
                    await asyncio.sleep(dice.uniform(0.1, 0.5))
                    writer.write(b"a")
            finally:
                writer.transport.abort()
        await asyncio.sleep(dice.uniform(0.1, 1.0))


if __name__ == "__main__":
    print(asyncio.run(_attacked(int(sys.argv[1]), int(sys.argv[2]))))
