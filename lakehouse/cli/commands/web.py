"""``tidemark web``: answers over HTTP, for browsers, Grafana, notebooks and DuckDB."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from lakehouse.cli.options import WrongUsage, duration, globals_of

EXAMPLES = (
    "tidemark web",
    "tidemark web --bind 127.0.0.1:8080 --timeout 30s",
    "tidemark web --bind 0.0.0.0:8417     (after tidemark token add NAME)",
)
DEFAULT_BIND = "127.0.0.1:8417"


def web(
    context: typer.Context,
    bind: Annotated[
        str, typer.Option(help="HOST:PORT to answer at; any but the loopback needs tokens.")
    ] = DEFAULT_BIND,
    timeout: Annotated[str, typer.Option(help="Most time of one question.")] = "10s",
    rows: Annotated[int, typer.Option(min=1, help="Most rows of one answer.")] = 10_000,
    at_once: Annotated[int, typer.Option(min=1, help="Most questions that are answered at once.")] = 4,
) -> None:
    """Show the home over HTTP: a page, an API, Prometheus' query API, and the published file.

    No JVM is started; what is published is read, never changed. On the loopback nobody needs a token. Any other
    address asks for one (`tidemark token add`), and belongs behind a proxy that speaks TLS. One line per question goes
    to the log. Ctrl-C ends it.
    """
    import uvicorn

    from lakehouse.home.layout import Home
    from lakehouse.web.access import LOOPBACK
    from lakehouse.web.app import WebOptions, create_app
    from lakehouse.web.parameters import Limits
    from lakehouse.web.tokens import read_tokens

    host, _, port = bind.rpartition(":")
    if not (host and port.isdigit() and int(port) < 65536):
        raise WrongUsage(f"--bind: found {bind!r}; expected HOST:PORT such as {DEFAULT_BIND}")
    layout = Home(globals_of(context).home_folder())
    needs_token = host not in LOOPBACK
    if needs_token and not read_tokens(layout):
        raise WrongUsage(
            f"--bind {bind} is not the loopback: make a token first, with `tidemark token add NAME`"
        )
    limits = Limits(rows=rows, timeout_s=duration(timeout, "--timeout") / 1e6)
    app = create_app(layout, WebOptions(limits, at_once, needs_token=needs_token))
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(name)s %(message)s")
    print(f"http://{bind}/ shows {layout.root}", flush=True)
    uvicorn.run(
        app,
        host=host.strip("[]"),
        port=int(port),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
        limit_concurrency=2_000,
    )
