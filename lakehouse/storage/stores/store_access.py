"""Access to object stores: credentials, addresses, options of each library, and the errors that all of them become.

    s3       whatever AWS's own library finds: variables ``AWS_...``, profiles, single sign-on, roles of the machine
    gs       GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_SERVICE_ACCOUNT, gcloud's default login, the machine's account
    abfss    AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_KEY, AZURE_CLIENT_ID with its secret or token file, az, the
             machine's identity

obstore and deltalake have one engine, which goes through the chains of Google and Microsoft by itself; for S3 it is
given what AWS's library finds. Spark looks for credentials itself, since its options can be read on its pages.
"""

import os
import re
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from lakehouse.config.store_address import Address

_ENDPOINTS = {"gs": ("GOOGLE_BASE_URL",), "abfss": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")}
_REGION = "us-east-1"
# Amazon's own address, which has a name for each bucket; others seldom have.
_AMAZON = re.compile(r"https://s3\.(?:([a-z0-9-]+)\.)?amazonaws\.com(?:\.cn)?")
NO_CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the machine a role",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS, or log in with gcloud, or give the machine a service account",
    "abfss": "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_CLIENT_ID and its like, or give the machine an identity",
}


class StoreUnavailable(RuntimeError):
    """A store does not answer, or refuses who asks: whoever asked fails, and asks again later."""


class ObjectUnread(RuntimeError):
    """A store does not give one object, or it was replaced while it was read; others may be given."""


def engine_options(place: Address) -> dict[str, str]:
    """Return how the engine of obstore and deltalake reaches a bucket, beyond what it finds by itself."""
    endpoint = endpoint_of(place)
    options = {"allow_http": "true"} if endpoint.startswith("http:") else {}
    if place.scheme == "abfss":
        options["account_name"] = _account(place.bucket)
    return options | _of_s3(endpoint) if place.scheme == "s3" else options


def _of_s3(endpoint: str) -> dict[str, str]:
    key, secret, token = _credentials()
    amazon = _AMAZON.fullmatch(endpoint)
    options = {
        "aws_access_key_id": key,
        "aws_secret_access_key": secret,
        "aws_region": (amazon and amazon[1]) or _region(),
        "aws_virtual_hosted_style_request": str(bool(amazon)).lower(),
        # An object that must be new, such as a version's log entry, is only written where there is none.
        "aws_conditional_put": "etag",
    }
    options |= {"aws_session_token": token} if token else {}
    return options if amazon else options | {"aws_endpoint": endpoint}


def spark_options(scheme: str) -> dict[str, str]:
    """Return how Spark reaches a store; credentials are none of it, each process of Spark finds its own."""
    if scheme != "s3":
        # The options of a connector that the configuration names are the configuration's.
        return {}
    endpoint = endpoint_of(Address("s3", "", ""))
    own = {
        "impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
        "endpoint.region": _region(),
    }
    if not _AMAZON.fullmatch(endpoint):
        own |= {"endpoint": endpoint, "path.style.access": "true"}
    options = {f"spark.hadoop.fs.s3a.{name}": value for name, value in own.items()}
    return {"spark.hadoop.fs.s3.impl": own["impl"], **options}


def endpoint_of(place: Address) -> str:
    """Return the address of a store; an empty text for the own one of Google or Microsoft.

    Raises StoreUnavailable when it is none, or holds a user name.
    """
    if place.scheme == "s3":
        return str(_client(place.endpoint).endpoint_url)
    return next((found for name in _ENDPOINTS[place.scheme] if (found := os.environ.get(name))), "")


def shown_endpoint(place: Address) -> str:
    """Return the address of a store as errors show it."""
    own = {
        "gs": "https://storage.googleapis.com",
        "abfss": f"https://{_account(place.bucket)}.blob.core.windows.net",
    }
    address = urlsplit(endpoint_of(place) or own[place.scheme])
    return f"{address.scheme}://{address.hostname}" + (f":{address.port}" if address.port else "")


def _account(bucket: str) -> str:
    return bucket.partition("@")[2].partition(".")[0]


def _region() -> str:
    return _client(None).region_name or _REGION


@lru_cache(1)
def _session() -> Any:
    try:
        import botocore.session
    except ImportError:
        raise StoreUnavailable("credentials of S3 need botocore: pip install 'tidemark[s3]'") from None
    return botocore.session.Session()


@lru_cache(8)
def _client(endpoint: str | None) -> Any:
    """Return the endpoint and region of S3, as AWS's library has them."""
    session = _session()
    from botocore.exceptions import BotoCoreError

    try:
        found = session.create_client("s3", endpoint_url=endpoint).meta
    except BotoCoreError as error:
        raise StoreUnavailable(f"no client of S3 can be made: {type(error).__name__}{_profile()}") from None
    except ValueError:
        raise StoreUnavailable("the endpoint of S3 (AWS_ENDPOINT_URL) is no address") from None
    if urlsplit(found.endpoint_url).username is not None:
        raise StoreUnavailable("the endpoint of S3 (AWS_ENDPOINT_URL) has a user name or password in it")
    return found


def _credentials() -> tuple[str, str, str | None]:
    """Return key, secret and perhaps a token of S3, as they hold now."""
    session = _session()
    from botocore.exceptions import BotoCoreError

    try:
        found = session.get_credentials()
        now = found.get_frozen_credentials() if found else None
    except BotoCoreError as error:
        raise StoreUnavailable(f"no credentials of S3: {type(error).__name__}{_profile()}") from None
    if now is None:
        # Those that come later are looked for again.
        forget()
        raise StoreUnavailable(f"there are no credentials: {NO_CREDENTIALS['s3']}")
    return now.access_key, now.secret_key, now.token


def forget() -> None:
    """Look again for credentials and addresses of S3 the next time."""
    _session.cache_clear()
    _client.cache_clear()


def _profile() -> str:
    profile = os.environ.get("AWS_PROFILE")
    return f"; AWS_PROFILE is {profile!r}" if profile else ""
