"""Credentials that tasks take from Airflow's Connections and Variables: which variables of the environment they fill.

    [airflow.secrets]
    control = "conn:lake_db"              TIDEMARK_CONTROL
    s3 = "conn:lake"                      AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, ...
    KAFKA_PASSWORD = "conn:broker"        its password; of "conn:broker#NAME" what its extra calls NAME; or "var:ID"

Whoever needs a secret takes it from the environment, in Airflow as elsewhere, so a process of Spark that a task starts
has it too. What is set already is not looked up, as in pods. Other commands than Airflow's tasks must be given it.
"""

import os
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote, urlencode

from lakehouse.config.problems import ConfigError, Problem

_REFERENCE = re.compile(r"conn:[^\s#]+(#\S+)?|var:\S+")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
# Variables by the part of a Connection that fills each; the first one says whether a key is looked up at all.
_FILLED = {
    "control": {"TIDEMARK_CONTROL": "database"},
    "spark": {"TIDEMARK_SPARK__MASTER": "master", "TIDEMARK_SPARK__SECRET": "password"},
    "alerts": {"TIDEMARK_ALERTS__URL": "address", "TIDEMARK_ALERTS__SECRET": "password"},
    "lineage": {"TIDEMARK_LINEAGE__URL": "address", "TIDEMARK_LINEAGE__API_KEY": "password"},
    "s3": {
        **{"AWS_ACCESS_KEY_ID": "login", "AWS_SECRET_ACCESS_KEY": "password"},
        **{"AWS_SESSION_TOKEN": "aws_session_token", "AWS_PROFILE": "profile_name"},
        **{"AWS_DEFAULT_REGION": "region_name", "AWS_ENDPOINT_URL": "endpoint_url"},
    },
    "gs": {"GOOGLE_APPLICATION_CREDENTIALS": "key_path"},
    "abfss": {
        **{"AZURE_STORAGE_ACCOUNT_KEY": "account_key", "AZURE_STORAGE_SAS_KEY": "sas_token"},
        **{
            "AZURE_CLIENT_ID": "client_id",
            "AZURE_CLIENT_SECRET": "client_secret",
            "AZURE_TENANT_ID": "tenant_id",
        },
    },
}
_FIELDS = ("type", "host", "port", "schema", "login", "password")
_SHOWN = {
    "master",
    "login",
    "profile_name",
    "region_name",
    "endpoint_url",
    "key_path",
    "client_id",
    "tenant_id",
}


def references(table: dict[str, str]) -> dict[str, str]:
    """Return a section of references.

    Raises ValueError with what is expected, for a key or reference that is none; what it says may be a secret itself.
    """
    for key, reference in table.items():
        if key not in _FILLED and not _VARIABLE.fullmatch(key):
            raise ValueError(
                f"expected {', '.join(_FILLED)} or a variable such as KAFKA_PASSWORD; one is {key}"
            )
        if not _REFERENCE.fullmatch(reference) or (key in _FILLED and not reference.startswith("conn:")):
            also = "" if key in _FILLED else ', "conn:ID#NAME" or "var:ID"'
            raise ValueError(f'expected "conn:ID"{also} at {key}')
    return table


def is_given(key: str) -> bool:
    """Return whether the environment has what a key would be looked up for."""
    return bool(os.environ.get(next(iter(_FILLED.get(key, {key: ""})))))


def require_given(source: str, secrets: Mapping[str, str]) -> None:
    """Refuse settings that only Airflow has, in a process that is none of its tasks.

    Raises ConfigError with each one's variables. Stores, clients and Kafka's options say themselves what they lack.
    """
    problems = []
    for key, reference in secrets.items():
        wanted = [name for name in _FILLED.get(key, {key: ""}) if name.startswith("TIDEMARK_")]
        if wanted and not any(os.environ.get(name) for name in wanted):
            found, expected = f"{reference!r}, which only Airflow's tasks can read", " or ".join(wanted)
            problems.append(Problem(f"airflow.secrets.{key}", found, f"{expected} in the environment"))
    if problems:
        raise ConfigError(source, problems)


def filled(key: str, part: str, connection: Mapping[str, str]) -> Iterator[tuple[str, str, bool]]:
    """Yield name and value of each variable that a Connection fills, and whether it is a secret.

    ``part``: of a variable of one's own, the name of its value; ``connection``: fields of a Connection and its extra.
    Raises ConfigError when the Connection lacks all of it, or asks for a role, which a profile would have to take on.
    """
    parts = {**connection, **_made(connection)}
    wanted = _FILLED.get(key, {key: part})
    values = {name: (parts[of], of not in _SHOWN) for name, of in wanted.items() if parts.get(of)}
    if not values:
        raise _refused(key, "a Connection without it", " or ".join(wanted.values()))
    if key == "s3" and parts.get("role_arn"):
        raise _refused(key, "role_arn", "profile_name, a profile of this machine that takes on the role")
    yield from ((name, value, is_secret) for name, (value, is_secret) in values.items())


def _refused(key: str, found: str, expected: str) -> ConfigError:
    return ConfigError("Airflow", [Problem(f"airflow.secrets.{key}", found, expected)])


def _made(connection: Mapping[str, str]) -> dict[str, str]:
    """Return what is made of several fields of a Connection."""
    login, password = connection.get("login", ""), connection.get("password", "")
    azure = ("client_id", "client_secret") if connection.get("tenant_id") else ("", "account_key")
    is_http = connection.get("schema") == "http"
    return {
        "database": _database(connection, f"{quote(login, safe='')}:{quote(password, safe='')}"),
        "address": _at(connection, "http" if is_http else "https"),
        "master": _at(connection, "sc" if connection.get("type") == "spark_connect" else "spark"),
        **dict(zip(azure, (login, password), strict=True)),
    }


def _database(connection: Mapping[str, str], user: str) -> str:
    query = urlencode({name: value for name, value in connection.items() if name not in _FIELDS})
    place = f"{connection.get('host', '')}{_port(connection)}/{connection.get('schema', '')}"
    return f"postgresql+psycopg://{user.rstrip(':')}@{place}{query and '?'}{query}"


def _at(connection: Mapping[str, str], scheme: str) -> str:
    """Return the address of a host, which may name its scheme, or a path after it; nothing without a host."""
    host, port = connection.get("host", ""), _port(connection)
    if not host or host.startswith("local"):
        return host
    own, found, rest = host.partition("://") if "://" in host else (scheme, "://", host)
    if own == "k8s":
        return host + port
    name, slash, path = rest.partition("/")
    return f"{own}{found}{name}{port}{slash}{path}"


def _port(connection: Mapping[str, str]) -> str:
    return f":{connection['port']}" if connection.get("port") else ""
