"""Finds the cheapest design and proves it: statistics, needs, candidates, options, upkeep, program, solve, assemble."""

from __future__ import annotations

from time import perf_counter

from keyplan.design.assemble import Assembly
from keyplan.design.build import build_problem
from keyplan.design.document import document
from keyplan.design.solve import solve
from keyplan.design.unserved import explain_unserved
from keyplan.engines.base import Engine
from keyplan.errors import DesignError
from keyplan.model.model import Model
from keyplan.plan.design import Design

__all__ = ["design", "document"]


def design(model: Model, engine: Engine) -> Design:
    """The cheapest design of a model on an engine that serves every pattern it can."""
    started = perf_counter()
    built = build_problem(model, engine)
    solution = solve(built.problem)
    if solution is None:
        lacking = [text for text, names in built.problem.required if not names]
        reason = f"; there is no way to keep {lacking[0]}" if lacking else ""
        raise DesignError(f"{model.name}: {engine.name} cannot serve this model at all{reason}")
    unserved = explain_unserved(model, engine, built)
    assembly = Assembly(model, engine, built, solution)
    return assembly.design(perf_counter() - started, unserved)
