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
    until_input_ends: Annotated[bool, typer.Option("--until-input-ends", hidden=True)] = False,
) -> None:
    """Serve pages, an API, Prometheus' API and the file.

    Reads the published version and never changes it; no JVM is started. Each request needs a token of the home
    (`tidemark token add`). If the home has none, the address that is printed contains one, which is good on this
    machine until the server ends. Put any other address behind a proxy that speaks TLS. The log has one line per
    question. Ctrl-C ends the server.
    """
    from lakehouse.service.child import end_with_input
    from lakehouse.service.logs import to_stream
    from lakehouse.web.parameters import Limits

    limits = Limits(rows=rows, timeout_s=duration(timeout, "--timeout") / 1e6)
    own = drawn_token(globals_of(context))
    server = _server_of(globals_of(context), bind, limits, at_once, own)
    address = f"http://{bind}/?token={own}" if own else f"http://{bind}/"
    shown = f"{address} shows {globals_of(context).home_folder()}"
    if to_stream(sys.stdout):
        logging.getLogger(__name__).info(shown)
    else:
        print(shown, flush=True)
    if until_input_ends:
        end_with_input()
    server.run()


def drawn_token(options: Globals) -> str:
    """Return the server's own token, empty where the home has tokens."""
    from lakehouse.web.security.tokens import TokenError, own_token

    try:
        return own_token(options.opened()[0])
    except TokenError as error:
        raise WrongUsage(str(error)) from None


def _server_of(options: Globals, bind: str, limits: Limits, at_once: int, own: str) -> uvicorn.Server:
    """Return a server of the home that the global options name, with the alerts of its configuration if it has one."""
    from lakehouse.web.app import WebOptions, build_server
    from lakehouse.web.security.binding import BindRefused

    (home, settings), url, secret, units = options.opened(), None, "", {}
    if settings:
        units = settings.time_units
        alerts = settings.alerts
        url, secret = alerts.url, alerts.secret.get_secret_value() if alerts.secret else ""
    answering = WebOptions(limits, at_once, own_token=own, alerts_url=url, alerts_secret=secret, units=units)
    try:
        return build_server(home, bind, answering)
    except BindRefused as error:
        raise WrongUsage(f"--bind: {error}") from None
