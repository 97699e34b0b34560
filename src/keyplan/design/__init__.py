"""Finds the cheapest design and proves it.

The folders are the passes, in this order: statistics, needs, candidates, options and upkeep, problem, program,
findings, answer, report.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter

from keyplan.design.answer.assemble import Assembly
from keyplan.design.candidates.given import carried_over, unfit
from keyplan.design.findings.hints import hints
from keyplan.design.findings.located import located
from keyplan.design.findings.unserved import explain_unserved
from keyplan.design.problem.build import Built
from keyplan.design.program.blocked import blocking_calls, why_not_kept
from keyplan.design.program.cheapest import cheapest
from keyplan.design.program.solve import Solution
from keyplan.design.report.document import document
from keyplan.engines.base import Engine
from keyplan.engines.calibration import check_targets
from keyplan.errors import DesignError
from keyplan.model.model import Model
from keyplan.plan.design import Design, Finding

__all__ = ["design", "document"]


def design(model: Model, engine: Engine, *, keep: Design | None = None, advise: bool = True) -> Design:
    """The cheapest design of a model on an engine that serves every pattern it can.

    The structures of `keep` are in it whatever they cost; others are added where that pays. A structure that the model
    has no place for any more is left out, which is a finding. `advise` looks for changes to the model, too, that would
    serve more or cost less; each that is tried is another problem to be solved.
    """
    check_targets(model)
    with _uncollected():
        return _designed(model, engine, keep, advise)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without garbage collection: a design is found before there is garbage worth looking for."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _designed(model: Model, engine: Engine, keep: Design | None, advise: bool) -> Design:
    started = perf_counter()
    given, lost = carried_over(model, engine.kinds, keep) if keep is not None else ({}, {})
    built, solution = cheapest(model, engine, given=given)
    if solution is None:
        raise DesignError(f"{model.name}: {engine.name} cannot serve this model at all{_why_not(built)}")
    unserved = explain_unserved(model, engine, built, advise)
    assembly = Assembly(model, engine, built, solution, keep)
    found = assembly.design(perf_counter() - started, unserved)
    advice = hints(built, solution, found) if advise else ()
    findings = (*found.findings, *_kept(built, solution, lost), *advice)
    return replace(found, findings=tuple(located(model, finding) for finding in findings))


def _why_not(built: Built) -> str:
    """What is in the way of any design, to be put behind that there is none."""
    lacking = [text for text, names in built.problem.required if not names]
    if lacking:
        why = built.refused.get(lacking[0])
        return f"; there is no way to keep {lacking[0]}" + (f": {why}" if why else "")
    kept = why_not_kept(built.problem)
    if kept:
        return f" with the structures that are kept; {kept}; design without --keep, or change that"
    calls = " or ".join(f"'{name}'" for name in blocking_calls(built.problem)[:3])
    return f"; without {calls} it could" if calls else ""


def _kept(built: Built, solution: Solution, lost: Mapping[str, str]) -> list[Finding]:
    """What keeping structures did not achieve."""
    findings = [
        Finding("warning", name, f"it cannot be kept: {text}")
        for name, text in (*lost.items(), *built.baseless.items())
    ]
    for label, names in built.kept_as.items():
        chosen = [built.problem.views[name] for name in names if name in solution.chosen]
        reason = next(filter(None, (unfit(built.forms, view) for view in chosen)), "")
        if reason:
            findings.append(Finding("warning", label, f"it is kept, but {reason}", "design without keeping it"))
    return findings
