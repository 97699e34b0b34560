"""URLs, and credentials from where AWS users keep them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qsl

import pytest

from keyplan.engines.dynamodb.credentials import Address, Credentials, parse_url, resolve
from keyplan.errors import AccessError, ArgumentError, MissingDriverError


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No configuration of the machine shows through, and nobody asks for instance metadata."""
    for name in ("PROFILE", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "REGION", "DEFAULT_REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name in ("ENDPOINT_URL", "ENDPOINT_URL_DYNAMODB", "IGNORE_CONFIGURED_ENDPOINT_URLS", "USE_FIPS_ENDPOINT"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name in ("CONTAINER_CREDENTIALS_RELATIVE_URI", "CONTAINER_CREDENTIALS_FULL_URI", "WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("dynamodb://shop", Address("shop")),
        ("dynamodb://My.Shop_1?region=eu-west-1", Address("My.Shop_1", "eu-west-1")),
        (
            "dynamodb://shop?endpoint=http://127.0.0.1:8000&profile=work",
            Address("shop", None, "http://127.0.0.1:8000", "work"),
        ),
    ],
)
def test_a_url_is_taken_apart(url: str, address: Address) -> None:
    assert parse_url(url) == address


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mongodb://shop", "'mongodb:' is not a dynamodb URL"),
        ("dynamodb://", "names no table"),
        ("dynamodb://my table?region=eu-west-1", "'my table' is no name for a table; take 3 to 255 letters"),
        ("dynamodb://ab", "'ab' is no name for a table"),
        ("dynamodb://shop/other", "or more than one"),
        ("dynamodb://shop?regoin=x", "unknown option 'regoin' in the URL; did you mean 'region'"),
        ("dynamodb://shop?colour=red", "known are region, endpoint, profile"),
        ("dynamodb://shop?region=", "option 'region' of the URL is empty"),
        ("dynamodb://shop?region=a&region=b", "given twice"),
        ("dynamodb://shop?endpoint=127.0.0.1:8000", "no http or https URL"),
        ("dynamodb://shop?endpoint=http://127.0.0.1:80000", "has no port from 0 to 65535"),
        ("dynamodb://shop?endpoint=http://127.0.0.1:http", "has no port from 0 to 65535"),
        ("dynamodb://shop?region=eu%20west", "'eu west' is no name for a region"),
        ("dynamodb://shop?region=eu-west-1%0d%0ax:y", "is no name for a region"),
        ("dynamodb://key:secret@shop", "holds no credentials"),
        ("dynamodb://shop?endpoint=http://key:hidden@host", "holds no credentials"),
    ],
)
def test_a_wrong_url_is_refused_without_its_secrets(url: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        parse_url(url)
    assert "secret" not in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_local_endpoint_needs_nothing() -> None:
    access = resolve(parse_url("dynamodb://shop?endpoint=http://127.0.0.1:8000"))
    assert (access.endpoint, access.region) == ("http://127.0.0.1:8000", "us-east-1")
    assert access.credentials() == Credentials("local", "local")


def test_a_local_endpoint_takes_what_the_environment_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "one")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "two")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    access = resolve(parse_url("dynamodb://shop?endpoint=http://localhost:8000"))
    assert access.region == "eu-north-1"
    assert access.credentials() == Credentials("one", "two")


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "one")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "two")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "three")
    access = resolve(parse_url("dynamodb://shop?region=eu-west-1"))
    assert access.endpoint == "https://dynamodb.eu-west-1.amazonaws.com"
    assert access.credentials() == Credentials("one", "two", "three")
    assert not access.must_renew()


def test_another_partition_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "one")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "two")
    access = resolve(parse_url("dynamodb://shop?region=cn-north-1"))
    assert access.endpoint == "https://dynamodb.cn-north-1.amazonaws.com.cn"


def test_a_profile_with_region_and_endpoint(clean: Path) -> None:
    (clean / "config").write_text("[profile work]\nregion = eu-west-3\nendpoint_url = http://localhost:4566\n")
    (clean / "credentials").write_text("[work]\naws_access_key_id = one\naws_secret_access_key = two\n")
    access = resolve(parse_url("dynamodb://shop?profile=work"))
    assert (access.endpoint, access.region) == ("http://localhost:4566", "eu-west-3")
    assert access.credentials() == Credentials("one", "two")


def test_credentials_that_are_renewed(clean: Path) -> None:
    script = clean / "give.sh"
    script.write_text(
        'echo \'{"Version": 1, "AccessKeyId": "one", "SecretAccessKey": "two", "SessionToken": "three",\n'
        '"Expiration": "2099-01-01T00:00:00Z"}\'\n'
    )
    (clean / "config").write_text(f"[profile work]\nregion = eu-west-3\ncredential_process = sh {script}\n")
    access = resolve(parse_url("dynamodb://shop?profile=work"))
    assert access.credentials() == Credentials("one", "two", "three")
    assert not access.must_renew()


def test_an_endpoint_of_the_service_goes_before_that_of_all(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (clean / "config").write_text(
        "[profile work]\nregion = eu-west-3\nendpoint_url = http://localhost:4566\nservices = here\n"
        "[services here]\ndynamodb =\n  endpoint_url = http://localhost:8000\n"
    )
    (clean / "credentials").write_text("[work]\naws_access_key_id = one\naws_secret_access_key = two\n")
    assert resolve(parse_url("dynamodb://shop?profile=work")).endpoint == "http://localhost:8000"
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    assert resolve(parse_url("dynamodb://shop?profile=work")).endpoint == "https://dynamodb.eu-west-3.amazonaws.com"


def test_endpoints_for_fips_and_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "one")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "two")
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "true")
    url = parse_url("dynamodb://shop?region=us-east-1")
    assert resolve(url).endpoint == "https://dynamodb-fips.us-east-1.amazonaws.com"
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "false")
    monkeypatch.setenv("AWS_USE_DUALSTACK_ENDPOINT", "true")
    assert resolve(url).endpoint == "https://dynamodb.us-east-1.api.aws"


def test_a_profile_of_the_environment_is_meant_for_a_local_endpoint_too(
    clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clean / "credentials").write_text("[work]\naws_access_key_id = one\naws_secret_access_key = two\n")
    monkeypatch.setenv("AWS_PROFILE", "work")
    access = resolve(parse_url("dynamodb://shop?endpoint=http://127.0.0.1:8000"))
    assert (access.credentials(), access.region) == (Credentials("one", "two"), "us-east-1")


class _Giver(BaseHTTPRequestHandler):
    """A token service, the endpoint of a container, the metadata of an instance and a portal for logins, all of which
    give temporary credentials."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        if self.path.startswith("/federation/"):
            assert self.headers["x-amz-sso_bearer_token"] == "of a login"
            self._reply(
                '{"roleCredentials": {"accessKeyId": "one", "secretAccessKey": "two", "sessionToken": "of a portal", '
                '"expiration": 4070908800000}}'
            )
        elif self.path.endswith("/security-credentials/"):
            self._reply("worker")
        else:
            of = "an instance" if self.headers["x-aws-ec2-metadata-token"] == "of a session" else "a container"
            self._reply(
                f'{{"Code": "Success", "AccessKeyId": "one", "SecretAccessKey": "two", "Token": "of {of}", '
                '"Expiration": "2099-01-01T00:00:00Z"}'
            )

    def do_PUT(self) -> None:
        self._reply("of a session")

    def do_POST(self) -> None:
        asked = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        self.server.asked.append(asked)  # type: ignore[attr-defined]
        action = asked["Action"]
        self._reply(
            f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>'
            f"<Credentials><AccessKeyId>one</AccessKeyId><SecretAccessKey>two</SecretAccessKey>"
            f"<SessionToken>of {action}</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>"
            f"</{action}Result></{action}Response>"
        )

    def _reply(self, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def giver(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Giver)
    server.asked = []  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.server_port}")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_role_that_a_profile_assumes(clean: Path, giver: ThreadingHTTPServer) -> None:
    role = "arn:aws:iam::123456789012:role/reader"
    (clean / "config").write_text(
        f"[profile work]\nregion = eu-west-3\nrole_arn = {role}\nsource_profile = base\nexternal_id = shared\n"
    )
    (clean / "credentials").write_text("[base]\naws_access_key_id = zero\naws_secret_access_key = none\n")
    access = resolve(parse_url("dynamodb://shop?profile=work"))
    assert access.credentials() == Credentials("one", "two", "of AssumeRole")
    (asked,) = giver.asked  # type: ignore[attr-defined]
    assert (asked["RoleArn"], asked["ExternalId"]) == (role, "shared")
    assert not access.must_renew()


SSO = "sso_account_id = 123456789012\nsso_role_name = dev\nregion = eu-west-1\n"


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (f"sso_start_url = https://sso.example\nsso_region = eu-west-1\n{SSO}", "; log in with 'aws sso login'"),
        (
            f"sso_session = s\n{SSO}[sso-session s]\nsso_start_url = https://sso.example\nsso_region = eu-west-1\n",
            "; log in with 'aws sso login'",
        ),
        ("credential_process = /bin/false\nregion = eu-west-1\n", "custom-process; see what the profile's credential_"),
        ("role_arn = arn:aws:iam::1:role/x\nsource_profile = gone\nregion = eu-west-1\n", '"gone" referenced in the'),
        (
            "role_arn = arn:aws:iam::1:role/x\nsource_profile = work\nregion = eu-west-1\n",
            "no credentials|infinite|work",
        ),
        ("aws_access_key_id = one\naws_secret_access_key = hidden\n", "no region is known"),
    ],
)
def test_profiles_that_lead_nowhere(clean: Path, config: str, told: str) -> None:
    (clean / "config").write_text(f"[profile work]\n{config}")
    with pytest.raises(AccessError, match=told) as caught:
        resolve(parse_url("dynamodb://shop?profile=work")).credentials()
    assert "\n" not in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_role_by_web_identity(clean: Path, giver: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a Kubernetes pod with a service account."""
    (clean / "token").write_text("signed by the cluster")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(clean / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pod")
    access = resolve(parse_url("dynamodb://shop?region=eu-west-1"))
    assert access.credentials() == Credentials("one", "two", "of AssumeRoleWithWebIdentity")
    assert giver.asked[0]["WebIdentityToken"] == "signed by the cluster"  # type: ignore[attr-defined]


def test_credentials_of_a_container(giver: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in ECS, Fargate and EKS pod identity."""
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{giver.server_port}/role")
    access = resolve(parse_url("dynamodb://shop?region=eu-west-1"))
    assert access.credentials() == Credentials("one", "two", "of a container")
    assert giver.asked == ["/role"]  # type: ignore[attr-defined]


def test_credentials_of_an_instance(giver: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on EC2, with the token that its second version asks for."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{giver.server_port}")
    access = resolve(parse_url("dynamodb://shop?region=eu-west-1"))
    assert access.credentials() == Credentials("one", "two", "of an instance")


def test_somebody_who_has_logged_in(clean: Path, giver: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `aws sso login`, which leaves its token in the home directory."""
    monkeypatch.setenv("HOME", str(clean))
    monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", f"http://127.0.0.1:{giver.server_port}")
    (clean / "config").write_text(
        f"[profile work]\nsso_session = s\n{SSO}"
        "[sso-session s]\nsso_start_url = https://sso.example\nsso_region = eu-west-1\n"
    )
    cache = clean / ".aws" / "sso" / "cache"
    cache.mkdir(parents=True)
    token = {"accessToken": "of a login", "expiresAt": "2099-01-01T00:00:00Z"}
    (cache / f"{sha1(b's').hexdigest()}.json").write_text(json.dumps(token))
    # botocore asks for the home directory when it is imported, once.
    code = (
        "from keyplan.engines.dynamodb.credentials import parse_url, resolve\n"
        "print(*resolve(parse_url('dynamodb://shop?profile=work')).credentials(), sep='|')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.strip() == "one|two|of a portal", done.stderr


def test_nothing_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AccessError, match="no region is known"):
        resolve(parse_url("dynamodb://shop"))
    with pytest.raises(AccessError, match="no credentials found; set AWS_PROFILE"):
        resolve(parse_url("dynamodb://shop?region=eu-west-1"))
    with pytest.raises(AccessError, match="unknown region: 'mars-1'"):
        resolve(parse_url("dynamodb://shop?region=mars-1"))
    with pytest.raises(AccessError, match=r"profile \(gone\) could not be found"):
        resolve(parse_url("dynamodb://shop?region=eu-west-1&profile=gone"))


def test_without_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(MissingDriverError, match=r"pip install 'keyplan\[dynamodb\]'"):
        resolve(parse_url("dynamodb://shop?region=eu-west-1"))


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = f"{Credentials('AKIDEXAMPLE', 'hidden', 'token')} {Credentials('AKIDEXAMPLE', 'hidden', 'token')!r}"
    assert "hidden" not in shown
    assert "token" not in shown
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "one")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    assert "hidden" not in repr(resolve(parse_url("dynamodb://shop?region=eu-west-1")))
