"""The two servers that speak DynamoDB here, in pinned versions, fetched on first use."""

from __future__ import annotations

import platform
from pathlib import Path

from tests.engines import fetch

DYNAMODB_LOCAL = "3.3.1"
DYNOXIDE = "1.2.1"
DYNOXIDE_SHA512 = (
    "b011ea97127d00d90b96e1646117dde6bf18d00a457b0e0584eae5860440803e"
    "17cc4a053ae904a359ee053435fa34eda1fab09f83564369344e7e663538e052"
)


def dynamodb_local() -> Path:
    """The directory with its jars."""
    # The SDK version that DynamoDB Local asks for is newer than the newest published one, hence the pinned bom.
    return fetch.maven(
        f"dynamodb-local-{DYNAMODB_LOCAL}",
        [f"software.amazon.dynamodb:DynamoDBLocal:{DYNAMODB_LOCAL}"],
        boms=["software.amazon.awssdk:bom:2.40.0"],
    )


def can_run_dynoxide() -> bool:
    return (platform.system(), platform.machine()) == ("Linux", "x86_64")


def dynoxide() -> Path:
    """The server program."""
    if not can_run_dynoxide():
        raise fetch.FetchError("dynoxide is pinned for Linux on x86_64 only; use 'local' here")
    package = fetch.npm(f"dynoxide-{DYNOXIDE}", "@dynoxide/linux-x64", DYNOXIDE, DYNOXIDE_SHA512)
    binary = package / "dynoxide"
    binary.chmod(0o755)
    return binary


SOFTWARE = (dynamodb_local, dynoxide)
