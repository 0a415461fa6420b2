"""A session on a server of Spark Connect, which its clients share: they start no JVM, and find a warm one.

The server runs the tasks with its own options. What tasks import of the project is the server's own code where it has
it, and is sent to it otherwise; ``join_cluster`` requires that it is the code of this process.
"""

import atexit
from importlib.util import find_spec
from typing import Any, cast
from urllib.parse import quote

from pyspark.sql import SparkSession

from lakehouse.spark.cluster import options_of_jobs
from lakehouse.spark.home import SparkHome
from lakehouse.storage.ownership import kept_secret

# A server that is gone is waited for half a minute, not the ten that are Spark's default: sessions end with it.
_RETRIES = 5
# Of the options of a session, those that a client has a say in.
_OF_CLIENTS = "spark.sql."


def token_of(settings: SparkHome) -> str:
    """Return what clients show their server: the secret of the settings, or that which the home keeps."""
    secret = settings.spark.secret
    return secret.get_secret_value() if secret else kept_secret(settings.layout.connect_token)


def lacking_package() -> str | None:
    """Return the name of the package that clients need beside pyspark, where this Python lacks it."""
    return None if find_spec("grpc_status") else "grpcio-status"


def connected(settings: SparkHome) -> SparkSession:
    """Return a new session of the server that ``[spark] master`` names; it ends with this process."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    own = settings.spark
    address, _, tls = own.master.partition("/;")
    # As metadata, since Spark's own way to give a token demands TLS of every host that is not named localhost.
    token = quote(f"Bearer {token_of(settings)}", safe="")
    url = f"{address}/;{tls and tls + ';'}authorization={token}"
    builder: Any = SparkSession.Builder()
    for name, value in (options_of_jobs() | own.options).items():
        if name.startswith(_OF_CLIENTS):
            builder.config(name, value)
    session: Any = builder.remote(url).getOrCreate()
    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])
    atexit.register(session.stop)
    return cast(SparkSession, session)
