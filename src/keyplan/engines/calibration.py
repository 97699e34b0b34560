"""Coefficients from measurements: what an engine's cost model says of itself, fitted on a live server.

An engine measures small experiments of which it knows the work: so many commands, keys, documents, bytes. `fitted`
finds the price of each kind of work that explains the times best, none of them negative. Errors count relative to
the time, so that a quick read is predicted as well as a slow one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from math import log
from statistics import median
from typing import Any

from keyplan.engines import engine_names, get_engine
from keyplan.errors import ArgumentError, nearest
from keyplan.model.model import Model
from keyplan.units import parse_number

SWEEPS = 20_000
"""Coordinate descent ends after so many sweeps at the latest; some thousands are usual."""


@dataclass(frozen=True)
class Sample:
    """One experiment: the work of one execution, and the microseconds that it took."""

    name: str
    work: Mapping[str, float]
    micros: float


@dataclass(frozen=True)
class Calibration:
    """What was measured, and how well the coefficients explain it."""

    engine: str
    measured: str
    """What was measured and how, in a sentence."""
    target: Mapping[str, Mapping[str, float]]
    """What `targets:` of a model says of this engine."""
    coefficients: Mapping[str, float]
    samples: Sequence[Sample] = ()
    latencies: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds that 99 of 100 requests stay under, by kind of request."""

    @property
    def text(self) -> str:
        """The figures as YAML, as they stand under the engine's name in `targets:`."""
        lines = []
        for group, figures in self.target.items():
            lines.append(f"{group}:")
            lines += [f"  {name}: {value:.12f}".rstrip("0").rstrip(".") for name, value in figures.items()]
        return "\n".join(lines) + "\n"

    def predicted(self, sample: Sample) -> float:
        return predicted(self.coefficients, sample)

    @property
    def r2(self) -> float:
        """The share of the variance of the logarithms of the times that the coefficients explain."""
        return r_squared(self.coefficients, self.samples)

    @property
    def median_error(self) -> float:
        """Half of the experiments are predicted better than this; 0.1 is 10 %."""
        errors = [abs(self.predicted(sample) / sample.micros - 1) for sample in self.samples]
        return median(errors) if errors else 0.0


def predicted(coefficients: Mapping[str, float], sample: Sample) -> float:
    """The microseconds that a sample should have taken."""
    return sum(coefficients[name] * amount for name, amount in sample.work.items())


def r_squared(coefficients: Mapping[str, float], samples: Sequence[Sample]) -> float:
    """1 - residual / total variance. Of logarithms, or the slowest experiment alone would decide it."""
    if len(samples) < 2:
        return 0.0
    found = [log(sample.micros) for sample in samples]
    mean = sum(found) / len(found)
    total = sum((value - mean) ** 2 for value in found)
    left = sum(
        (value - log(max(1e-9, predicted(coefficients, sample)))) ** 2
        for value, sample in zip(found, samples, strict=True)
    )
    return 1 - left / total if total else 0.0


def fitted(samples: Sequence[Sample]) -> dict[str, float]:
    """The non-negative prices with the least sum of squared relative errors.

    Every kind of work that occurs gets one; a kind that no experiment tells from another shares its price with it.
    """
    names = list(dict.fromkeys(name for sample in samples for name in sample.work))
    # Relative errors: each equation is divided by its own time, so that the right-hand side is 1.
    rows = [[sample.work.get(name, 0.0) / sample.micros for name in names] for sample in samples]
    many = range(len(names))
    gram = [[sum(row[i] * row[j] for row in rows) for j in many] for i in many]
    right = [sum(row[i] for row in rows) for i in many]
    found = [0.0] * len(names)
    for _ in range(SWEEPS):
        moved = 0.0
        for i in many:
            if not gram[i][i]:
                continue
            others = sum(gram[i][j] * found[j] for j in many if j != i)
            value = max(0.0, (right[i] - others) / gram[i][i])
            moved = max(moved, abs(value - found[i]) * gram[i][i] ** 0.5)
            found[i] = value
        if moved < 1e-10:
            break
    return dict(zip(names, found, strict=True))


def checked(model: Model, *reads: Callable[[], object]) -> None:
    """Reads all of what `targets:` of a model says of an engine, so that everything that is wrong is told at once."""
    problems: dict[str, None] = {}
    for read in reads:
        try:
            read()
        except ArgumentError as error:
            problems |= dict.fromkeys(_located(model, line) for line in str(error).splitlines())
    _stop(list(problems))


def _located(model: Model, problem: str) -> str:
    """A problem of `targets:` with the file and line of what it names, where these are known."""
    path, _, rest = problem.partition(": ")
    unknown = re.match(r"there is no (?:engine )?'([^']*)'", rest)
    wanted = [f"{path}.{unknown[1]}"] if unknown else []
    line = next((model.target_lines[one] for one in (*wanted, path) if one in model.target_lines), None)
    return f"{model.file or 'model'}:{line}: {problem}" if line else problem


def _stop(problems: Sequence[str]) -> None:
    if problems:
        raise ArgumentError("\n".join(problems))


def check_targets(model: Model) -> None:
    """Refuses what is wrong anywhere in `targets:` of a model, of all engines at once, whichever it is designed for."""
    known = [name for name in model.targets if name in engine_names()]
    checked(
        model,
        lambda: _check_names(model),
        *(partial(get_engine(name).costs, model) for name in known),
    )


def _check_names(model: Model) -> None:
    problems = []
    for name in model.targets:
        if name not in engine_names():
            hint = nearest(name, engine_names()) or f"; there are {', '.join(engine_names())}"
            problems.append(f"targets: there is no engine '{name}'{hint}")
    _stop(problems)


def check_options(model: Model, engine: str, known: Sequence[str]) -> None:
    """Refuses what `targets:` of a model says of an engine that the engine does not know."""
    problems = []
    for name in model.targets.get(engine, {}):
        if name not in known:
            hint = nearest(name, known) or f"; known are {', '.join(known)}"
            problems.append(f"targets.{engine}: there is no '{name}'{hint}")
    _stop(problems)


def given(model: Model, engine: str, group: str, of: type[Any]) -> dict[str, float]:
    """The figures that `targets:` of a model names in place of an engine's own, by the fields of a dataclass."""
    where = f"targets.{engine}.{group}"
    told = model.targets.get(engine, {}).get(group, {})
    if not isinstance(told, dict):
        raise ArgumentError(f"{where}: not a table of figures; 'keyplan calibrate' prints one")
    names = [each.name for each in fields(of)]
    found = {}
    problems = []
    for name, text in told.items():
        if name not in names:
            problems.append(f"{where}: there is no '{name}'{nearest(name, names)}")
            continue
        try:
            found[name] = parse_number(str(text))
        except ValueError as error:
            problems.append(f"{where}.{name}: {error}")
            continue
        if found[name] < 0:
            problems.append(f"{where}.{name}: {text} is less than 0; say 0 or more")
    _stop(problems)
    return found


def highest(seconds: Sequence[float]) -> float:
    """What 99 of 100 stay under."""
    return sorted(seconds)[int(len(seconds) * 0.99)] if seconds else 0.0
