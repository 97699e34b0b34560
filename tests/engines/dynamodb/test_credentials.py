"""URLs, and credentials from where AWS users keep them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from keyplan.engines.dynamodb.credentials import Address, Credentials, parse_url, resolve
from keyplan.errors import AccessError, ArgumentError, MissingDriverError


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No configuration of the machine shows through, and nobody asks for instance metadata."""
    for name in ("PROFILE", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "REGION", "DEFAULT_REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        monkeypatch.delenv(name, raising=False)
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
