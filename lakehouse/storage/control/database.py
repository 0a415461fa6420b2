"""The database of a control store, by its URL, without saying its password to anybody.

SQLAlchemy takes 0.2 s to import, so it is imported where a database is opened, and never without one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.exc import SQLAlchemyError

# How long a database that does not answer is waited for.
_CONNECT_S = 10
_SILENT_MS = 30_000
EXTRA = "pip install 'tidemark[postgres]'"


class ControlUnreachable(RuntimeError):
    """The database of the control store refuses, or does not answer."""


def masked(url: str) -> str:
    """Return where a database is: its URL without user, password and options."""
    from sqlalchemy.engine import URL, make_url

    known = make_url(url)
    # What is left out may hold a secret: options too.
    return URL.create(
        known.drivername, host=known.host, port=known.port, database=known.database
    ).render_as_string()


def connect(url: str) -> Connection:
    """Return a new connection, on which each statement is a transaction of its own.

    Raises ControlUnreachable when there is none to be had.
    """
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    options = {"connect_timeout": _CONNECT_S, "tcp_user_timeout": _SILENT_MS, "application_name": "tidemark"}
    with told(url):
        engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=options)
        return engine.connect()


@contextmanager
def told(url: str) -> Iterator[None]:
    """Say of what goes wrong with a database which one it is, and no secret.

    Raises ControlUnreachable for every error of the database or its driver; FileExistsError when a row that should be
    new is there.
    """
    from sqlalchemy.exc import IntegrityError, SQLAlchemyError

    try:
        yield
    except ImportError as error:
        raise ControlUnreachable(
            f"control store {masked(url)}: its driver is missing ({error}): {EXTRA}"
        ) from None
    except IntegrityError:
        raise FileExistsError(17, "Another process has written it", masked(url)) from None
    except SQLAlchemyError as error:
        # Not from it: the error before holds statements, values and what the driver was given.
        raise ControlUnreachable(f"control store {masked(url)}: {_words(url, error)}") from None


def _words(url: str, error: SQLAlchemyError) -> str:
    from sqlalchemy.engine import make_url

    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    said = "; ".join(line.strip() for line in lines) or type(error).__name__
    password = make_url(url).password
    return said.replace(str(password), "***") if password else said
