"""Finds the cheapest design and proves it: statistics, needs, candidates, options, upkeep, prune, program, solve,
assemble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from time import perf_counter

from keyplan.design.assemble import Assembly
from keyplan.design.build import Built, build_problem
from keyplan.design.difference import difference
from keyplan.design.document import document
from keyplan.design.document_schema import document_schema
from keyplan.design.explain import explain
from keyplan.design.given import carried_over, unfit
from keyplan.design.heat import NOTHING_HOT, ROUNDS, Together, too_hot_together
from keyplan.design.hints import hints
from keyplan.design.picture import picture
from keyplan.design.solve import Solution, solve
from keyplan.design.unserved import explain_unserved
from keyplan.engines.base import Engine
from keyplan.errors import DesignError
from keyplan.model.model import Model
from keyplan.plan.design import Design, Finding
from keyplan.plan.view import View

__all__ = ["design", "difference", "document", "document_schema", "explain", "picture"]


def design(model: Model, engine: Engine, *, keep: Design | None = None) -> Design:
    """The cheapest design of a model on an engine that serves every pattern it can.

    The structures of `keep` are in it whatever they cost; others are added where that pays. A structure that the model
    has no place for any more is left out, which is a finding.
    """
    started = perf_counter()
    given, lost = carried_over(model, engine.kinds, keep) if keep is not None else ({}, {})
    built, solution = _solved(model, engine, given)
    if solution is None:
        lacking = [text for text, names in built.problem.required if not names]
        reason = f"; there is no way to keep {lacking[0]}" if lacking else ""
        why = next((text for entity, text in built.refused.items() if reason.endswith(f"a home of '{entity}'")), "")
        reason += f": {why}" if why else ""
        kept = " with the structures that are kept" if keep is not None else ""
        raise DesignError(f"{model.name}: {engine.name} cannot serve this model at all{kept}{reason}")
    unserved = explain_unserved(model, engine, built)
    assembly = Assembly(model, engine, built, solution)
    found = assembly.design(perf_counter() - started, unserved)
    return replace(found, findings=(*found.findings, *_kept(built, lost), *hints(model, engine, found)))


def _solved(model: Model, engine: Engine, given: Mapping[str, Sequence[View]]) -> tuple[Built, Solution | None]:
    """The problem and its cheapest choice, of which no place is too hot for all patterns that read it together."""
    together = NOTHING_HOT
    served: Set[str] = set()
    for number in range(ROUNDS):
        built, solution = _solved_once(model, engine, given, together)
        if number and not (built.unserved.keys() <= served and solution is not None):
            # Kept apart they cannot be served: then they are served together, which is a warning.
            return _solved_once(model, engine, given, NOTHING_HOT)
        served = built.unserved.keys()
        hotter = too_hot_together(built.problem, set(solution.chosen), together) if solution is not None else None
        if hotter is None:
            break
        together = hotter
    return built, solution


def _solved_once(
    model: Model, engine: Engine, given: Mapping[str, Sequence[View]], together: Together
) -> tuple[Built, Solution | None]:
    built = build_problem(model, engine, given=given, together=together)
    built.problem.required += [(f"'{label}', which is kept", [name]) for label, name in built.given.items()]
    solution = solve(built.problem)
    if solution is None:
        # Some write needs more views than one atomic request can keep true: it is refused when it is that large.
        built.problem = replace(built.problem, couplings=built.couplings)
        solution = solve(built.problem)
    return built, solution


def _kept(built: Built, lost: Mapping[str, str]) -> list[Finding]:
    """What keeping structures did not achieve."""
    findings = [Finding("warning", name, f"it cannot be kept: {reason}") for name, reason in lost.items()]
    for label, name in built.given.items():
        reason = unfit(built.forms, built.problem.views[name])
        if reason:
            findings.append(Finding("warning", label, f"it is kept, but {reason}", "design without keeping it"))
    return findings
