"""AWS Signature Version 4 for DynamoDB's one kind of request, as bytes ready to be sent.

Every request is a POST of JSON to one path, so most of what is signed is constant per endpoint; the derived key is kept
for the day. What is right is what botocore does: the tests compare every signature with its.
"""

from __future__ import annotations

import hmac
import time
from hashlib import sha256
from urllib.parse import urlsplit

from keyplan.engines.dynamodb.credentials import Credentials

SERVICE = "dynamodb"
CONTENT_TYPE = "application/x-amz-json-1.0"


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


class Signer:
    """Signs requests to one endpoint in one region; `offset_seconds` corrects a clock that is off."""

    def __init__(self, endpoint: str, region: str) -> None:
        parts = urlsplit(endpoint)
        default_port = 443 if parts.scheme == "https" else 80
        host = parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        self.host = host if parts.port in (None, default_port) else f"{host}:{parts.port}"
        self.path = parts.path or "/"
        self.region = region
        self.offset_seconds = 0.0
        self._head = (
            f"POST {self.path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: {CONTENT_TYPE}\r\n"
            "Accept-Encoding: identity\r\nUser-Agent: keyplan\r\n"
        )
        # Each a single value, replaced whole, so that threads never see half of a change.
        self._key = ("", "", b"")
        self._stamp = (0, "")

    def _date(self) -> str:
        second = int(time.time() + self.offset_seconds)
        known, stamp = self._stamp
        if second != known:
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
            self._stamp = (second, stamp)
        return stamp

    def _signing_key(self, secret: str, day: str) -> bytes:
        known_secret, known_day, key = self._key
        if known_secret != secret or known_day != day:
            key = b"AWS4" + secret.encode()
            for text in (day, self.region, SERVICE, "aws4_request"):
                key = _hmac(key, text)
            self._key = (secret, day, key)
        return key

    def authorization(self, target: str, body: bytes, credentials: Credentials, stamp: str) -> str:
        """The Authorization header for a body sent at `stamp` (YYYYMMDDTHHMMSSZ)."""
        if credentials.token is None:
            names = "content-type;host;x-amz-date;x-amz-target"
            token = ""
        else:
            names = "content-type;host;x-amz-date;x-amz-security-token;x-amz-target"
            token = f"x-amz-security-token:{credentials.token}\n"
        request = (
            f"POST\n{self.path}\n\ncontent-type:{CONTENT_TYPE}\nhost:{self.host}\nx-amz-date:{stamp}\n{token}"
            f"x-amz-target:{target}\n\n{names}\n{sha256(body).hexdigest()}"
        )
        day = stamp[:8]
        scope = f"{day}/{self.region}/{SERVICE}/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{sha256(request.encode()).hexdigest()}"
        signature = _hmac(self._signing_key(credentials.secret, day), text).hex()
        return f"AWS4-HMAC-SHA256 Credential={credentials.key}/{scope}, SignedHeaders={names}, Signature={signature}"

    def request(self, operation: str, body: bytes, credentials: Credentials) -> bytes:
        """The whole HTTP request for an operation such as `GetItem`."""
        stamp = self._date()
        target = f"DynamoDB_20120810.{operation}"
        token = "" if credentials.token is None else f"X-Amz-Security-Token: {credentials.token}\r\n"
        head = (
            f"{self._head}X-Amz-Target: {target}\r\nX-Amz-Date: {stamp}\r\n{token}"
            f"Authorization: {self.authorization(target, body, credentials, stamp)}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("latin-1") + body
