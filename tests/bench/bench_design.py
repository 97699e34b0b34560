"""How long `keyplan design` takes, Python's own start included: `python -m tests.bench.bench_design`.

Every example, and generated models of growing size, on every engine. Each design runs in a process of its own; its
processor time is what counts against the bar, because the designer runs on one core and waits for nothing, and the
elapsed time is printed beside it: on a quiet machine the two are the same. A design that is over its bar is made
again, and the fastest run counts: a core that is shared makes programs slower, never faster. Sources are compiled
before, as an installation does it.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

from keyplan.engines import engine_names
from tests.bench.harness import machine, table
from tests.bench.models import model_text

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE_BAR = 1.5
BARS = {10: 1.5, 30: 4.0, 100: 20.0}
GAP_BAR = 0.01


@dataclass(frozen=True)
class Designed:
    """One run of the command."""

    name: str
    engine: str
    elapsed: float
    processor: float
    megabytes: float
    document: dict[str, Any]
    bar: float

    @property
    def gap(self) -> float:
        return float(self.document["objective"]["gap"])

    @property
    def is_met(self) -> bool:
        return self.processor <= self.bar and self.gap <= GAP_BAR


RUNS = 3
"""How often a design that is over its bar is made."""


def fastest(name: str, path: Path, engine: str, bar: float) -> Designed:
    """The fastest of several runs, as few as it takes."""
    best = design(name, path, engine, bar)
    for _ in range(RUNS - 1):
        if best.is_met:
            break
        best = min(best, design(name, path, engine, bar), key=lambda one: one.processor)
    return best


def design(name: str, path: Path, engine: str, bar: float) -> Designed:
    """Runs the command and measures the process."""
    command = [sys.executable, "-m", "keyplan", "design", str(path), "--engine", engine, "--format", "json"]
    environment = compiled()
    start = perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        elapsed = perf_counter() - start
        output.seek(0)
        text = output.read()
    if process.returncode not in (0, 1):  # 1: a pattern is not served, which is an answer too
        raise SystemExit(f"{name} on {engine}: exit {process.returncode}")
    seconds = used.ru_utime + used.ru_stime
    return Designed(name, engine, elapsed, seconds, used.ru_maxrss / 1024, json.loads(text), bar)


@cache
def compiled() -> dict[str, str]:
    """The environment of programs whose sources are compiled already, whether or not that is kept beside them."""
    folder = tempfile.mkdtemp(prefix="keyplan-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for engine in engine_names():
        command = [sys.executable, "-m", "keyplan", "design", str(EXAMPLES / "sessions.yaml"), "--engine", engine]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return environment


def runs(sizes: list[int], engines: list[str]) -> Iterator[Designed]:
    """Examples first."""
    for path in sorted(EXAMPLES.glob("*.yaml")):
        for engine in engines:
            yield fastest(path.stem, path, engine, EXAMPLE_BAR)
    with tempfile.TemporaryDirectory(prefix="keyplan-bench-") as folder:
        for size in sizes:
            path = Path(folder) / f"generated{size}.yaml"
            path.write_text(model_text(size), encoding="utf-8")
            for engine in engines:
                yield fastest(f"{size} entities", path, engine, BARS.get(size, float("inf")))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=list(BARS), help="entities of the generated models")
    parser.add_argument("--engines", nargs="*", default=list(engine_names()))
    arguments = parser.parse_args()
    print(f"{machine()}\n")
    found = list(runs(arguments.sizes, arguments.engines))
    heads = ("model", "engine", "processor", "elapsed", "bar", "memory", "gap", "candidates", "")
    print(table(heads, [_line(one) for one in found]))
    return int(not all(one.is_met for one in found))


def _line(one: Designed) -> tuple[str, ...]:
    solved = one.document["objective"]
    return (
        one.name,
        one.engine,
        f"{one.processor:.2f} s",
        f"{one.elapsed:.2f} s",
        f"{one.bar:.1f} s",
        f"{one.megabytes:.0f} MB",
        f"{one.gap:.2%}",
        str(solved["candidates"]),
        "met" if one.is_met else "MISSED",
    )


if __name__ == "__main__":
    sys.exit(main())
