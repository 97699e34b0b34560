"""The Terraform file by HashiCorp's own parser of HCL, which npm has compiled to WebAssembly."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import hcl2
import pytest

from keyplan.engines.dynamodb.emit import emit
from tests.engines import fetch
from tests.engines.dynamodb.test_emit import BILLINGS, bare, designed

PACKAGE, VERSION = "@cdktf/hcl2json", "0.21.0"
SHA512 = (
    "7305f78bf992248fdc46bb6ac043d17dac01ee95e0362a2b892964be8bbc2d68"
    "82aeb7037bd66d4db01bbbc5b5b44250a5ed699d7f55120a737ff05b33bc45f1"
)
# The package wants of fs-extra what node has itself.
FILES = 'module.exports = { ...require("fs"), ...require("fs").promises };\n'
SCRIPT = """
const { parse } = require("./package/lib/index.js");
const files = JSON.parse(require("fs").readFileSync(0, "utf8"));
(async () => {
  const found = {};
  for (const [name, text] of Object.entries(files)) {
    try { found[name] = await parse(`${name}.tf`, text); } catch (error) { found[name] = String(error); }
  }
  process.stdout.write(JSON.stringify(found), () => process.exit(0));
})();
"""


def _build(directory: Path) -> None:
    fetch.npm_package(directory, PACKAGE, VERSION, SHA512)
    (directory / "node_modules" / "fs-extra").mkdir(parents=True)
    (directory / "node_modules" / "fs-extra" / "index.js").write_text(FILES, encoding="utf-8")
    (directory / "parse.js").write_text(SCRIPT, encoding="utf-8")


def parsed(files: dict[str, str]) -> dict[str, Any]:
    """What the parser makes of each file; a text where it refuses it."""
    try:
        node = fetch.need("node")
        directory = fetch.once(f"hcl2json-{VERSION}", _build)
    except fetch.FetchError as error:
        if "dynamodb" in os.environ.get("KEYPLAN_TEST_REQUIRE", ""):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    command = [node, str(directory / "parse.js")]
    done = subprocess.run(command, input=json.dumps(files), capture_output=True, text=True, check=True, timeout=100)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_files_are_hcl() -> None:
    files = {
        f"{name}-{billing}": next(iter(emit(*designed(name, billing), "terraform").values()))
        for name in ("tiny", "little", "rooms")
        for billing in BILLINGS
    }
    whole = files["little-provisioned"]
    found = parsed({**files, "broken": whole.replace("{", "{{", 1), "bare": whole.replace('"PK"', "PK PK", 1)})
    assert [name for name, file in found.items() if isinstance(file, str)] == ["broken", "bare"]
    for name, text in files.items():
        blocks = [
            (kind, label) for one in bare(hcl2.loads(text))["resource"] for kind, some in one.items() for label in some
        ]
        assert sorted(blocks) == sorted(
            (kind, label) for kind, some in found[name]["resource"].items() for label in some
        )
