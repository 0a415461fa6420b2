"""``tidemark web``: serve answers over HTTP, for browsers, Grafana, notebooks and DuckDB."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.options import Globals, WrongUsage, duration, globals_of

if TYPE_CHECKING:
    import uvicorn

    from lakehouse.web.parameters import Limits

EXAMPLES = (
    "tidemark web",
    "tidemark web --bind 127.0.0.1:8080 --timeout 30s",
    "tidemark web --bind 0.0.0.0:8417     (after tidemark token add NAME)",
)
DEFAULT_BIND = "127.0.0.1:8417"


def web(
    context: typer.Context,
    bind: Annotated[
        str, typer.Option(help="HOST:PORT to listen on; any address but the loopback needs a token.")
    ] = DEFAULT_BIND,
    timeout: Annotated[str, typer.Option(help="The longest time of one question.")] = "10s",
    rows: Annotated[int, typer.Option(min=1, help="The most rows of one answer.")] = 10_000,
    at_once: Annotated[int, typer.Option(min=1, help="The most questions answered at the same time.")] = 4,
) -> None:
    """Serve pages, an API, Prometheus' API and the file.

    Reads the published version and never changes it; no JVM is started. Once the home has a token (`tidemark
    token add`), each request needs one. Without tokens only the loopback is answered, and nothing that a proxy passes
    on. Put any other address behind a proxy that speaks TLS. The log has one line per question. Ctrl-C ends the server.
    """
    from lakehouse.web.parameters import Limits

    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(name)s %(message)s")
    limits = Limits(rows=rows, timeout_s=duration(timeout, "--timeout") / 1e6)
    server = server_of(globals_of(context), bind, limits, at_once)
    print(f"http://{bind}/ shows {globals_of(context).home_folder()}", flush=True)
    server.run()


def server_of(options: Globals, bind: str, limits: Limits, at_once: int = 4) -> uvicorn.Server:
    """Return a server of the home that the global options name, with the alerts of its configuration if it has one."""
    from lakehouse.home.layout import Home
    from lakehouse.web.app import BindRefused, WebOptions, build_server

    url, secret = None, ""
    # Whoever only asks needs no configuration: a home is enough.
    if options.config_file().is_file():
        alerts = options.settings().alerts
        url, secret = alerts.url, alerts.secret.get_secret_value() if alerts.secret else ""
    answering = WebOptions(limits, at_once, alerts_url=url, alerts_secret=secret)
    try:
        return build_server(Home(options.home_folder()), bind, answering)
    except BindRefused as error:
        raise WrongUsage(f"--bind: {error}") from None
