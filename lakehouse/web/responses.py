"""One answer over HTTP: which version, is it known already, the work, the format, and the headers that say so.

A version never changes, so ``/v/{version}/...`` may be kept for ever; ``/latest/...`` says in Content-Location which
version answered, and is asked again each time: where nothing was published since, that costs no more than reading the
pointer. The ETag is made of the version and of the question as it was understood.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from starlette.responses import Response

from lakehouse.serving.sandbox.sandbox import PublishedReader
from lakehouse.web.formats import MEDIA_TYPES, Format, Rows, written
from lakehouse.web.problems import Problem
from lakehouse.web.versions import Versions
from lakehouse.web.work import Stop, Work

IMMUTABLE = "private, max-age=31536000, immutable"
# Always asked again, and most often answered with 304.
REVALIDATE = "private, no-cache"
# Servers and proxies refuse headers that are much longer.
MOST_OF_HEADER = 1000


@dataclass(frozen=True)
class At:
    """The version that a request is about; ``is_latest`` where the request named none."""

    version: int
    is_latest: bool

    @property
    def prefix(self) -> str:
        """Beginning of the version's own addresses."""
        return f"/v/{self.version}"


def declared(version: Annotated[int, Path(ge=1, le=2**31 - 1, description="A published version.")]) -> None:
    """Say what the ``version`` of an address is, where there is one."""


def asked_version(request: Request) -> At:
    """Return the version that the address names, the current one where it names none."""
    given = request.path_params.get("version")
    if given is None:
        return At(versions_of(request).current(), True)
    if not re.fullmatch(r"[0-9]{1,10}", str(given)) or not 1 <= int(given) < 2**31:
        raise Problem(422, "Wrong parameter", "version: expected the number of a published version")
    return At(int(given), False)


Declared, Asked = Depends(declared), Depends(asked_version)


def versions_of(request: Request) -> Versions:
    """Return the open versions of the application."""
    found: Versions = request.app.state.versions
    return found


def work_of(request: Request) -> Work:
    """Return the application's places to work."""
    found: Work = request.app.state.work
    return found


def etag(at: At, *question: Any) -> str:
    """Return the strong validator of an answer."""
    return (
        f'"{at.version}-{hashlib.sha256(repr(question).encode("utf-8", "surrogatepass")).hexdigest()[:32]}"'
    )


def is_known(request: Request, validator: str) -> bool:
    """True if the client has this answer already."""
    given = request.headers.get("if-none-match", "")
    return given == "*" or validator in [one.strip().removeprefix("W/") for one in given.split(",")]


def headers_of(request: Request, at: At, validator: str) -> dict[str, str]:
    """Return the headers of an answer that stays as it is for its version."""
    headers = {"ETag": validator, "Vary": "Authorization", "Tidemark-Version": str(at.version)}
    if not at.is_latest:
        return headers | {"Cache-Control": IMMUTABLE}
    query = f"?{request.url.query}" if request.url.query else ""
    location = f"{at.prefix}{request.url.path.removeprefix('/latest')}{query}"
    return headers | {"Cache-Control": REVALIDATE, "Content-Location": location}


async def answered(
    request: Request,
    at: At,
    form: Format,
    question: Any,
    ask: Callable[[PublishedReader], Rows],
    keep: bool = True,
) -> Response:
    """Return the rows that ``ask`` finds in a version, or 304 where the client has them.

    ``keep`` is False for what may change while the version stays, such as an answer from raw rows.
    """
    validator = etag(at, request.url.path.rpartition("/")[2], question)
    headers = headers_of(request, at, validator)
    if not keep:
        headers = {"Cache-Control": "no-store", "Tidemark-Version": str(at.version)}
    elif is_known(request, validator):
        return Response(status_code=304, headers=headers)

    def work(stop: Stop) -> tuple[bytes, dict[str, str]]:
        with versions_of(request).reader(at.version) as reader:
            stop.by(reader.interrupt)
            found = ask(reader)
            return written(found, form), _withheld(found)

    content, more = await work_of(request).run(request, work)
    return respond(content, form, headers | more)


def _withheld(found: Rows) -> dict[str, str]:
    """Return the header that says what CSV has no place for: that newer data of the stream are withheld."""
    said = " ".join(str(found.about.get("withheld") or "").split())
    shown = said[:MOST_OF_HEADER].encode("ascii", "backslashreplace").decode()
    return {"Tidemark-Withheld": shown} if shown else {}


def respond(content: bytes, form: Format, headers: dict[str, str]) -> Response:
    """Return a response of one format."""
    return Response(content, headers=headers, media_type=MEDIA_TYPES[form])
