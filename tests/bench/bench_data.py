"""How many rows per second the generator makes, entity by entity: `python -m tests.bench.bench_data [MODEL…]`.

Without models, those in examples/. Processor time counts, the least of several runs, because a core that is shared
makes programs slower, never faster. A loop of plain additions runs beside each: how fast it is says how busy the core
was. An entity of very few rows is over before it has begun, so none of fewer than `FEWEST` is held against the bar.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from pathlib import Path
from time import process_time

from keyplan.data import Dataset
from keyplan.model.load import load_model
from tests.bench.harness import machine, table

EXAMPLES = Path(__file__).parents[2] / "examples"
BAR = 100_000
ROWS, FEWEST = 50_000, 1_000
RUNS = 3
ADDITIONS = 200_000


def rate(data: Dataset, entity: str) -> tuple[int, float]:
    """How many rows were made, and how many per second of processor time."""
    count = min(ROWS, data.counts[entity])
    best = 0.0
    for _ in range(RUNS):
        start = process_time()
        deque(data.rows(entity, 0, count), maxlen=0)
        best = max(best, count / max(process_time() - start, 1e-9))
    return count, best


def control() -> float:
    """Millions of additions per second."""
    start = process_time()
    total = 0
    for number in range(ADDITIONS):
        total = total + number & 0xFFFF
    return ADDITIONS / (process_time() - start) / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", type=Path, default=sorted(EXAMPLES.glob("*.yaml")))
    lines = []
    missed = 0
    for path in parser.parse_args().models:
        data = Dataset(load_model(path))
        for entity in data.entities:
            count, found = rate(data, entity)
            verdict = "too few to tell" if count < FEWEST else "met" if found >= BAR else "MISSED"
            missed += verdict == "MISSED"
            columns = len(data.parts[entity].entity.stored)
            shown = (f"{count:,}", f"{columns}", f"{found:,.0f}", verdict, f"{control():.1f} M/s")
            lines.append((path.stem, entity, *shown))
    print(f"{machine()}\n")
    print(table(("model", "entity", "rows", "columns", "rows/s", f"bar {BAR:,}", "control"), lines))
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
