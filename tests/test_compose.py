"""`compose.yaml` is for users with Docker, which the tests do not need: what can be seen without it is seen here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
KNOWN = {"image", "command", "environment", "ports", "healthcheck"}
IMAGE = re.compile(r"(?:[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*:\d[\w.-]*")
"""A name with a version; `latest` would change under our feet."""
PORT = re.compile(r"127\.0\.0\.1:(\d+):(\d+)")


def test_every_engine_with_a_server_has_a_service() -> None:
    servers = {file.parent.name for file in (ROOT / "tests" / "engines").glob("*/server.py")}
    assert servers
    assert servers <= SERVICES.keys()


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_local_and_says_when_it_is_ready(name: str) -> None:
    service = SERVICES[name]
    assert service.keys() <= KNOWN
    assert IMAGE.fullmatch(service["image"])
    assert service["ports"]
    for port in service["ports"]:
        found = PORT.fullmatch(port)
        assert found, "a port is open to this machine only"
        assert found[1] == found[2]
    health = service["healthcheck"]
    assert health.keys() == {"test", "interval", "retries"}
    assert health["test"][0] in ("CMD", "CMD-SHELL")
    assert len(health["test"]) >= 2
    assert all(isinstance(word, str) and word for word in health["test"])
    assert re.fullmatch(r"\d+s", health["interval"])
    assert isinstance(health["retries"], int)


def test_no_two_services_share_a_port() -> None:
    ports = [port for service in SERVICES.values() for port in service["ports"]]
    assert len(set(ports)) == len(ports)
