"""Credentials from Airflow's Connections and Variables, put into the environment of a task before it reads its home."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def take_secrets(params: Mapping[str, Any] | None) -> None:
    """Fill the variables that ``[airflow.secrets]`` of a run's configuration names; Airflow masks them in its logs.

    Raises LookupError: Airflow has none of that id, or cannot be asked, which may pass; ConfigError when there is no
    configuration, or a Connection lacks what is asked for.
    """
    from airflow.sdk.log import mask_secret

    from lakehouse.config.airflow.homes import airflow_home
    from lakehouse.config.airflow.secrets import is_given
    from lakehouse.config.config_paths import config_file

    named = (params or {}).get("config")
    secrets = airflow_home(config_file(Path(named) if named else None)).settings.secrets
    for key, reference in secrets.items():
        if not is_given(key):
            for name, value, is_secret in _looked_up(key, *reference.split(":", 1)):
                os.environ[name] = value
                if is_secret:
                    mask_secret(value)


def _looked_up(key: str, kind: str, named: str) -> Iterator[tuple[str, str, bool]]:
    from airflow.sdk import Connection, Variable

    from lakehouse.config.airflow.secrets import filled

    conn_id, _, part = named.partition("#")
    try:
        held = Variable.get(named) if kind == "var" else Connection.get(conn_id)
    except Exception as error:
        raise LookupError(f"airflow.secrets.{key}: Airflow does not give {kind}:{named}: {error}") from None
    if kind == "var":
        yield key, str(held), True
        return
    own = {name: getattr(held, name) for name in ("host", "port", "schema", "login", "password")}
    fields = {**held.extra_dejson, "type": held.conn_type, **own}
    texts = {name: str(value) for name, value in fields.items() if value is not None}
    yield from filled(key, part or "password", texts)
