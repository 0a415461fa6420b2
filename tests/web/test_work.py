from __future__ import annotations

import asyncio
import threading

from starlette.requests import Request
from starlette.types import Message

from lakehouse.web.work import Stop, Work


def _request() -> Request:
    """Return a request whose client stays."""

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    return Request({"type": "http"}, receive)


def test_statements_leave_a_place_to_whoever_looks_at_the_page() -> None:
    end = threading.Event()

    def statement(_: Stop) -> str:
        end.wait(30)
        return "statement"

    async def asked() -> tuple[str, list[str]]:
        work = Work(at_once=3, waiting=10, timeout_s=30)
        statements = [
            asyncio.ensure_future(work.run(_request(), statement, is_statement=True)) for _ in range(5)
        ]
        await asyncio.sleep(0.1)
        try:
            question = await asyncio.wait_for(work.run(_request(), lambda _: "question"), 5)
        finally:
            end.set()
        found = await asyncio.gather(*statements)
        work.close()
        return question, found

    assert asyncio.run(asked()) == ("question", ["statement"] * 5)
