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
from keyplan.design.program.cheapest import cheapest
from keyplan.design.report.document import document
from keyplan.engines.base import Engine
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
        lacking = [text for text, names in built.problem.required if not names]
        reason = f"; there is no way to keep {lacking[0]}" if lacking else ""
        why = built.refused.get(lacking[0]) if lacking else None
        reason += f": {why}" if why else ""
        kept = " with the structures that are kept" if keep is not None else ""
        raise DesignError(f"{model.name}: {engine.name} cannot serve this model at all{kept}{reason}")
    unserved = explain_unserved(model, engine, built, advise)
    assembly = Assembly(model, engine, built, solution)
    found = assembly.design(perf_counter() - started, unserved)
    advice = hints(built, solution, found) if advise else ()
    findings = (*found.findings, *_kept(built, lost), *advice)
    return replace(found, findings=tuple(located(model, finding) for finding in findings))


def _kept(built: Built, lost: Mapping[str, str]) -> list[Finding]:
    """What keeping structures did not achieve."""
    findings = [Finding("warning", name, f"it cannot be kept: {reason}") for name, reason in lost.items()]
    for label, name in built.given.items():
        reason = unfit(built.forms, built.problem.views[name])
        if reason:
            findings.append(Finding("warning", label, f"it is kept, but {reason}", "design without keeping it"))
    return findings
