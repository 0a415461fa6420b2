"""Errors as RFC 9457 says them: one JSON object of type ``application/problem+json``, without paths or tracebacks."""

import json
import logging
import secrets
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from lakehouse.serving.ask.question import AskError, UnknownStream
from lakehouse.serving.sandbox.sandbox import SqlFailed
from lakehouse.serving.versions.versions import NotPublished, VersionGone
from lakehouse.storage.stores.store_access import ObjectUnread, StoreUnavailable
from lakehouse.web.security.tokens import Token

logger = logging.getLogger(__name__)


class Problem(Exception):
    """An answer that is an error: status, a short title, what happened, and further fields and headers."""

    def __init__(
        self, status: int, title: str, detail: str, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.title, self.detail = status, title, detail
        self.headers, self.fields = dict(headers or {}), fields


def problem_of(error: Exception) -> Problem:
    """Return how an error is told; one that is nobody's fault but ours says nothing of itself."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, VersionGone):
        return Problem(410, "Version gone", str(error), nearest=error.nearest)
    if isinstance(error, NotPublished):
        return Problem(503, "Nothing published", "nothing published yet: run `tidemark run`")
    if isinstance(error, StoreUnavailable | ObjectUnread):
        return Problem(503, "Store unavailable", "the store that has this version does not give it now")
    if isinstance(error, AskError | SqlFailed):
        return Problem(400, "Cannot be asked" if isinstance(error, AskError) else "SQL failed", str(error))
    if isinstance(error, HTTPException):
        return Problem(error.status_code, str(error.detail), str(error.detail), error.headers)
    if isinstance(error, RequestValidationError):
        # What was given is not repeated, it may be long.
        wrong = [f"{' '.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors()[:10]]
        return Problem(422, "Wrong parameter", "; ".join(wrong))
    reference = secrets.token_hex(4)
    logger.error("request %s failed", reference, exc_info=error)
    said = f"this should not have happened; the server's log says more under {reference}"
    return Problem(500, "Internal error", said)


def response_of(problem: Problem) -> Response:
    """Return the response that tells a problem."""
    document = {
        "type": "about:blank",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        **problem.fields,
    }
    headers = {"Cache-Control": "no-store", **problem.headers}
    content = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
    return Response(content, problem.status, headers, "application/problem+json")


def answer_with_problems(app: FastAPI) -> None:
    """Have an application tell every error as a problem."""

    async def respond(request: Request, error: Exception) -> Response:
        token: Token | None = request.scope.get("token")
        if isinstance(error, UnknownStream) and token is not None and token.streams is not None:
            error = UnknownStream(error.stream, list(filter(token.sees, error.among)))
        return response_of(problem_of(error))

    stores = StoreUnavailable, ObjectUnread
    for kind in (Problem, VersionGone, NotPublished, *stores, AskError, SqlFailed, HTTPException):
        app.add_exception_handler(kind, respond)
    app.add_exception_handler(RequestValidationError, respond)
