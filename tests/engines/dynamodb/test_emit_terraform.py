"""The Terraform file against the schema of the provider it is for.

`terraform validate` takes that schema from HashiCorp's own registry. The same schema is published on npm, as the types
of the provider's CDK package, which were generated from it: names, kinds and what is required.
"""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
from pathlib import Path
from typing import Any

import hcl2
import pytest

from keyplan.engines.dynamodb.emit import emit
from tests.engines import fetch
from tests.engines.dynamodb.test_emit import CASES, bare, designed

PACKAGE, VERSION = "@cdktf/provider-aws", "21.22.1"
"""Of the AWS provider 6.25.0."""
SHA512 = (
    "06e48779a40550bf65df7a41cc83114fb71343af4033698bb628e3b5e08f8554"
    "119afba1ba3f4bbdfca67fb92700c858a804faf8bae5b3d8e21955bf52cdf3ad"
)
RESOURCES = {
    "aws_dynamodb_table": "DynamodbTable",
    "aws_appautoscaling_target": "AppautoscalingTarget",
    "aws_appautoscaling_policy": "AppautoscalingPolicy",
}
META = {"for_each", "lifecycle"}
"""Arguments that Terraform itself understands, in every resource."""
INTERFACE = re.compile(r"^export interface (\w+)[^{]*\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
MEMBER = re.compile(r"^    readonly (\w+)(\??): (\{|[^;\n]+)", re.MULTILINE)

Schema = dict[str, dict[str, tuple[bool, str]]]
"""Interface -> argument -> whether it is required, and its type."""


def _build(directory: Path) -> None:
    fetch.run([fetch.need("npm"), "pack", "--silent", f"{PACKAGE}@{VERSION}"], directory)
    (archive,) = directory.glob("*.tgz")
    if hashlib.sha512(archive.read_bytes()).hexdigest() != SHA512:
        raise fetch.FetchError(f"{PACKAGE}@{VERSION}: the archive has another checksum than the pinned one")
    with tarfile.open(archive) as packed:
        for resource in RESOURCES:
            folder = resource.removeprefix("aws_").replace("_", "-")
            member = packed.extractfile(f"package/lib/{folder}/index.d.ts")
            assert member is not None
            (directory / f"{resource}.d.ts").write_bytes(member.read())
    archive.unlink()


@pytest.fixture(scope="module")
def schema() -> Schema:
    try:
        directory = fetch.once(f"terraform-aws-{VERSION}", _build)
    except fetch.FetchError as error:
        if "dynamodb" in os.environ.get("KEYPLAN_TEST_REQUIRE", ""):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    found: Schema = {}
    for resource in RESOURCES:
        text = (directory / f"{resource}.d.ts").read_text(encoding="utf-8")
        for name, inside in INTERFACE.findall(text):
            found[name] = {_snake(one): (mark != "?", kind) for one, mark, kind in MEMBER.findall(inside)}
    return found


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def problems(schema: Schema, interface: str, given: dict[str, Any], where: str) -> list[str]:
    """What the provider would refuse in a block."""
    known = schema[interface]
    found = [f"{where}: no argument '{name}'" for name in given if name not in known]
    found += [f"{where}: '{name}' is missing" for name, (needed, _) in known.items() if needed and name not in given]
    for name, value in given.items():
        if name not in known:
            continue
        kind = known[name][1].removesuffix(" | cdktf.IResolvable")
        inner = kind.removesuffix("[]")
        if inner in schema:
            if not kind.endswith("[]") and len(value) > 1:
                found.append(f"{where}: one '{name}' at most")
            for number, block in enumerate(value):
                found += problems(schema, inner, block, f"{where}.{name}[{number}]")
        elif not _fits(kind, value):
            found.append(f"{where}: '{name}' is no {kind}")
    return found


def _fits(kind: str, value: Any) -> bool:
    if isinstance(value, str) and value.startswith("${"):
        return True  # an expression
    kinds = {"string": str, "number": int, "boolean": bool, "string[]": list, "{": dict}
    return isinstance(value, kinds[kind])


def refused(schema: Schema, text: str) -> list[str]:
    """What the provider would refuse in a file."""
    found = []
    for one in bare(hcl2.loads(text))["resource"]:
        for resource, named in one.items():
            for name, given in named.items():
                arguments = {key: value for key, value in given.items() if key not in META}
                found += problems(schema, f"{RESOURCES[resource]}Config", arguments, f"{resource}.{name}")
    return found


@CASES
def test_the_provider_knows_every_argument(schema: Schema, name: str, billing: str) -> None:
    (text,) = emit(*designed(name, billing), "terraform").values()
    assert refused(schema, text) == []


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("hash_key ", "hash_keys ", "no argument 'hash_keys'"),
        ('projection_type = "KEYS_ONLY"\n', "\n", "'projection_type' is missing"),
        ("enabled = true", 'enabled = "maybe"', "'enabled' is no boolean"),
        ("min_capacity ", "least ", "'min_capacity' is missing"),
    ],
)
def test_the_schema_sees_mistakes(schema: Schema, right: str, wrong: str, message: str) -> None:
    (text,) = emit(*designed("shop", "provisioned"), "terraform").values()
    assert right in text
    assert any(message in problem for problem in refused(schema, text.replace(right, wrong)))
