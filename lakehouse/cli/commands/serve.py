"""``tidemark serve``: ingest, roll up, run queries and publish continuously, in this process, until a signal."""

import logging
import sys
from typing import Annotated, NoReturn

import typer

from lakehouse.cli.options import Globals, WrongUsage, declared, duration, globals_of
from lakehouse.service import ending
from lakehouse.storage.layout import Home

EXAMPLES = (
    "tidemark serve",
    "tidemark serve --stream telemetry --every 5s",
    "tidemark serve --metrics 127.0.0.1:9464 --log-json",
    "tidemark serve --web 127.0.0.1:8417",
)


def serve(
    context: typer.Context,
    stream: Annotated[list[str] | None, typer.Option(help="Only this stream; may be repeated.")] = None,
    every: Annotated[str, typer.Option(help="How often to look for new files and messages.")] = "2s",
    publish: Annotated[str, typer.Option(help="The least time between two publishes, on average.")] = "2s",
    metrics: Annotated[str | None, typer.Option(help="HOST:PORT of Prometheus metrics.")] = None,
    web: Annotated[str | None, typer.Option(help="HOST:PORT of a process like `tidemark web`.")] = None,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Write log lines as JSON [or $TIDEMARK_LOG=json].")
    ] = False,
) -> NoReturn:
    """Ingest, roll up, run queries and publish continuously.

    Can run beside Airflow: its DAGs for these jobs skip, and repair, checks and maintenance stay with Airflow. A
    stream that fails is tried again later, while the others continue. SIGTERM or Ctrl-C gives the running jobs two
    seconds to finish and stops within five; a second signal stops at once. Safe to kill anywhere: the next start
    continues. Log lines go to stdout.
    """
    from lakehouse.service.logs import set_up

    settings = globals_of(context).settings()
    declared(settings, stream or [])
    every_s, publish_s = duration(every, "--every") / 1e6, duration(publish, "--publish") / 1e6
    set_up(settings, sys.stdout, log_json)
    from jobs import serve_streams
    from jobs.running.outcome import logged, reporting
    from lakehouse.service.workers import WorkerEnded

    for name, problems in settings.faulty.items():
        message = "; ".join(map(str, problems))
        logging.getLogger(__name__).warning(
            "query %s is set aside until its file is mended: %s", name, message
        )
    if metrics:
        _show_metrics(settings.layout, metrics)
    if web:
        _answer(globals_of(context), web, log_json)
    try:
        with reporting(logged):
            serve_streams.run(settings, stream, every_s, publish_s)
    except WorkerEnded:
        logging.getLogger(__name__).exception("the service cannot go on")
        _leave(1)
    _leave(0)


def _show_metrics(layout: Home, address: str) -> None:
    from lakehouse.service.metrics_server import start_server
    from lakehouse.serving.published_quarantine import PublishedQuarantine

    host, _, port = address.rpartition(":")
    if not (host and port.isdigit() and int(port) < 65536):
        raise WrongUsage(f"--metrics: found {address!r}; expected HOST:PORT such as 127.0.0.1:9464")
    shown = start_server(layout, host.strip("[]"), int(port), PublishedQuarantine(layout))
    logging.getLogger(__name__).info("metrics at http://%s:%s/metrics", host, shown)


def _answer(options: Globals, bind: str, log_json: bool) -> None:
    """Answer over HTTP from a process beside this one, which prints its address and ends with it."""
    from lakehouse.cli.commands.web import drawn_token
    from lakehouse.service.child import keep_running
    from lakehouse.service.logs import VARIABLE
    from lakehouse.web.security.binding import BindRefused, checked
    from lakehouse.web.security.tokens import OWN_TOKEN

    try:
        checked(options.opened()[0], bind)
    except BindRefused as error:
        raise WrongUsage(f"--web: {error}") from None
    given = {"--config": options.config, "--home": options.home}
    where = [word for name, path in given.items() if path is not None for word in (name, str(path))]
    command = [sys.executable, "-m", "lakehouse.cli", *where, "web", "--bind", bind, "--until-input-ends"]
    # Its address stays good when it is started again.
    environment = {OWN_TOKEN: drawn_token(options)} | ({VARIABLE: "json"} if log_json else {})
    keep_running("tidemark web", command, environment)


def _leave(code: int) -> NoReturn:
    """End the process now: threads of works that are cut off, of metrics and of answers would keep it."""
    logging.shutdown()
    sys.stdout.flush()
    number = ending.heard()
    ending.leave(128 + number if number else code)
