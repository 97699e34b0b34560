"""Who we are and where the table is: the URL, and credentials, region and endpoint as AWS users expect them.

botocore finds credentials (environment, shared files, SSO, assumed roles, containers, instances) and renews them; it is
imported only when a connection is opened. An endpoint on this machine gets dummy ones if the environment names none, so
that local servers need no set-up and nobody waits for an instance's metadata.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from keyplan.errors import AccessError, ArgumentError, MissingDriverError, nearest

_OPTIONS = ("region", "endpoint", "profile")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LOCAL_REGION = "us-east-1"
_NAMED = (
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
)
"""Variables with which somebody says where credentials are, so that those are meant for a local endpoint, too."""


class Credentials(NamedTuple):
    """What a request is signed with. Its text form hides the secrets."""

    key: str
    secret: str
    token: str | None = None

    def __repr__(self) -> str:
        return f"Credentials(key='{self.key[:4]}…')"

    def __str__(self) -> str:
        return repr(self)


class Address(NamedTuple):
    """A parsed `dynamodb://` URL."""

    table: str
    region: str | None = None
    endpoint: str | None = None
    profile: str | None = None


_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
"""As DynamoDB Local and dynoxide say when they refuse others, seen 2026-11-16."""

_REGION = re.compile(r"[A-Za-z0-9-]+")
"""It becomes part of a host name and of a header."""


def parse_url(url: str) -> Address:
    """Takes `dynamodb://TABLE?region=…&endpoint=…&profile=…` apart.

    >>> parse_url("dynamodb://shop?region=eu-west-1")
    Address(table='shop', region='eu-west-1', endpoint=None, profile=None)
    """
    parts = urlsplit(url)
    if parts.scheme != "dynamodb":
        raise ArgumentError(f"'{parts.scheme}:' is not a dynamodb URL; write dynamodb://TABLE?region=…")
    if "@" in parts.netloc:
        raise ArgumentError("dynamodb: a URL holds no credentials; use a profile or the environment")
    table = unquote(parts.netloc)
    if not table or parts.path.strip("/"):
        raise ArgumentError("dynamodb: the URL names no table, or more than one; write dynamodb://TABLE?region=…")
    if not _TABLE.fullmatch(table):
        raise ArgumentError(
            f"dynamodb: '{table}' is no name for a table; take 3 to 255 letters, digits, '_', '-' and '.'"
        )
    options: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _OPTIONS:
            hint = nearest(name, _OPTIONS) or f"; known are {', '.join(_OPTIONS)}"
            raise ArgumentError(f"dynamodb: unknown option '{name}' in the URL{hint}")
        if name in options:
            raise ArgumentError(f"dynamodb: option '{name}' is given twice in the URL; give it once")
        if not value:
            raise ArgumentError(f"dynamodb: option '{name}' of the URL is empty; give a value or leave it out")
        options[name] = value
    region = options.get("region", "")
    if region and not _REGION.fullmatch(region):
        raise ArgumentError(f"dynamodb: {region!r} is no name for a region; write one such as eu-west-1")
    endpoint = options.get("endpoint")
    if endpoint is not None:
        _check_endpoint(endpoint)
    return Address(table, options.get("region"), endpoint, options.get("profile"))


def _check_endpoint(endpoint: str) -> None:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ArgumentError(f"dynamodb: endpoint '{endpoint}' is no http or https URL; write http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise ArgumentError("dynamodb: an endpoint holds no credentials; use a profile or the environment")
    try:
        _ = parts.port
    except ValueError:
        raise ArgumentError(f"dynamodb: endpoint '{endpoint}' has no port from 0 to 65535; correct it") from None


@dataclass(frozen=True)
class Access:
    """Where requests go, and what they are signed with."""

    endpoint: str
    region: str
    credentials: Callable[[], Credentials] = field(repr=False)
    """The present credentials; may block to renew them."""
    must_renew: Callable[[], bool] = field(default=lambda: False, repr=False)
    """True: the next call of `credentials` will block on the network."""


def resolve(address: Address) -> Access:
    """Completes an address from environment and shared configuration."""
    endpoint = address.endpoint or _environment_endpoint()
    is_named = address.profile is not None or any(os.environ.get(name) for name in _NAMED)
    if endpoint is not None and not is_named and urlsplit(endpoint).hostname in _LOOPBACK:
        _check_endpoint(endpoint)
        local = _local_credentials()
        return Access(endpoint, address.region or _environment_region() or _LOCAL_REGION, lambda: local)
    session = _session(address.profile)
    region = address.region or _environment_region() or _guarded(lambda: session.get_config_variable("region"))
    if endpoint is None:
        endpoint = _guarded(lambda: _configured_endpoint(session))
    if region is None:
        if endpoint is None or urlsplit(endpoint).hostname not in _LOOPBACK:
            raise AccessError("dynamodb: no region is known; add ?region=… to the URL or set AWS_REGION")
        region = _LOCAL_REGION
    if endpoint is None:
        endpoint = _guarded(lambda: _aws_endpoint(session, region))
    _check_endpoint(endpoint)
    source = _guarded(session.get_credentials)
    if source is None:
        raise AccessError(
            "dynamodb: no credentials found; set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "or add ?profile=… to the URL"
        )

    def credentials() -> Credentials:
        frozen = _guarded(source.get_frozen_credentials)
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)

    if not hasattr(source, "refresh_needed"):
        fixed = credentials()
        return Access(endpoint, region, lambda: fixed)
    return Access(endpoint, region, credentials, lambda: bool(source.refresh_needed()))


def _environment_endpoint() -> str | None:
    if os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        return None
    return os.environ.get("AWS_ENDPOINT_URL_DYNAMODB") or os.environ.get("AWS_ENDPOINT_URL")


def _configured_endpoint(session: Any) -> str | None:
    """What the shared configuration says of DynamoDB, or of all services."""
    from botocore.configprovider import ConfiguredEndpointProvider  # type: ignore[import-untyped]

    if session.get_config_variable("ignore_configured_endpoint_urls"):
        return None
    found: str | None = ConfiguredEndpointProvider(
        session.full_config, session.get_scoped_config(), "dynamodb"
    ).provide()
    return found


def _aws_endpoint(session: Any, region: str) -> str:
    """AWS's own, of the region's partition, with the variants (FIPS, IPv6) that the configuration asks for."""
    from botocore.regions import EndpointResolver  # type: ignore[import-untyped]

    session.get_partition_for_region(region)  # raises on a region that nobody knows
    found = EndpointResolver(session.get_data("endpoints")).construct_endpoint(
        "dynamodb",
        region,
        use_dualstack_endpoint=bool(session.get_config_variable("use_dualstack_endpoint")),
        use_fips_endpoint=bool(session.get_config_variable("use_fips_endpoint")),
    )
    return f"https://{found['hostname']}"


def _environment_region() -> str | None:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def _local_credentials() -> Credentials:
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if key and secret:
        return Credentials(key, secret, os.environ.get("AWS_SESSION_TOKEN"))
    return Credentials("local", "local")


def _session(profile: str | None) -> Any:
    try:
        from botocore.session import Session  # type: ignore[import-untyped]
    except ImportError:
        raise MissingDriverError(
            "dynamodb: 'botocore' is not installed; run: pip install 'keyplan[dynamodb]'"
        ) from None
    return Session(profile=profile)


def _guarded(call: Callable[[], Any]) -> Any:
    """Calls botocore, whose errors (a missing profile, a failed SSO login) speak for themselves."""
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

    try:
        return call()
    except (BotoCoreError, ClientError) as error:
        text = " ".join(str(error).split()).rstrip(".: ")
        advice = "check the region and the profile, or log in again"
        if "sso" in text.lower():
            advice = "log in with 'aws sso login' and the same profile"
        elif "custom-process" in text:
            advice = "see what the profile's credential_process says when you run it"
        raise AccessError(f"dynamodb: {text[:1].lower()}{text[1:]}; {advice}") from error
