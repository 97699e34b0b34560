"""Generated models, rows and calls: every engine answers exactly what the reference answers.

The statistics are drawn apart from the models, because they decide the design: the same program runs on tables that
may be scanned, on large ones, with cheap and with dear writes. Afterwards `verify` finds every view equal to what the
home rows imply.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from math import ceil
from pprint import pformat
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

import keyplan
from keyplan.design.needs.computed import computed_of
from keyplan.errors import ArgumentError, RangeError, UnsupportedError
from keyplan.model.model import Model
from keyplan.model.pattern import Traffic
from keyplan.plan.design import Design
from keyplan.plan.steps import Owned
from tests.engines.harness import Harness
from tests.examples_data.compare import first_difference
from tests.strategies.designs import Designs
from tests.strategies.domains import among, chance
from tests.strategies.programs import (
    Clock,
    Program,
    behind_programs,
    on_reference,
    play,
    programs,
    refused_programs,
    state_programs,
)

EXAMPLES = int(os.environ.get("KEYPLAN_PROGRAMS", "300"))
PARTS = ceil(EXAMPLES / 50)
"""Of so many tests, each draws programs of its own: no process runs all of them while the others have nothing to do."""

THOROUGHLY = 3
"""Of so many of these, one is on all nodes that users run the engine on, or on its vendor's own server, and the others
are on the server that answers soonest."""

PHASES = (Phase.explicit, Phase.reuse, Phase.generate, *((Phase.shrink,) if os.environ.get("KEYPLAN_SHRINK") else ()))
"""Shrinking takes minutes; a failing program is printed as it was found, and shrunk on request."""

ROWS = (30.0, 30_000.0, 30_000_000.0)
RATES = (0.01, 1.0, 300.0)
FRESHNESS: tuple[dict[str, Any], ...] = (
    *({"consistency": "eventual"}, {"consistency": "strong"}, {"consistency": "session"}),
    *({"consistency": "strong"}, {"consistency": "eventual", "stale_ms": 60_000}),
    {"consistency": "session", "stale_ms": 3_600_000},
)
LEVELS = (None, "eventual", None, "strong", None, "session")
"""What one call after another asks for."""
SPECIAL = 2
"""Of so many programs and one, one is about the states of rows, of which designs seldom keep sparse views otherwise, or
about what is computed behind references."""


@st.composite
def statistics(draw: st.DrawFn, model: Model) -> Model:
    """The model with drawn counts, rates and consistencies; in some patterns the answer may be old, too."""
    freshness = st.sampled_from(FRESHNESS)
    entities = {name: replace(one, count=draw(among(*ROWS))) for name, one in model.entities.items()}
    patterns = {
        name: replace(
            one,
            traffic=Traffic(draw(among(*RATES))),
            rows=None,
            **draw(freshness),
        )
        for name, one in model.patterns.items()
    }
    writes = {name: replace(one, traffic=Traffic(draw(among(*RATES)))) for name, one in model.writes.items()}
    return replace(model, entities=entities, patterns=patterns, writes=writes)


@pytest.mark.parametrize("part", range(PARTS))
@settings(
    max_examples=ceil(EXAMPLES / PARTS),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=PHASES,
)
@given(data=st.data())
def test_engine_answers_as_the_reference(harness: Harness, designs: Designs, part: int, data: st.DataObject) -> None:
    server = harness.replicated if part % THOROUGHLY == 0 else harness.soonest
    special = state_programs() if chance(data.draw, 1) else behind_programs()
    program = data.draw(special if chance(data.draw, SPECIAL) else programs())
    targets = data.draw(st.sampled_from((server.targets, server.targets, *server.other_targets)))
    model = replace(data.draw(statistics(program.model)), targets=targets)
    # Advice takes a third of a design's time and changes nothing that is run: it is sought for every fourth program.
    design = designs.of(model, harness.name, advise=len(program.operations) % 4 == 0)
    run(program, model, server.url(), design)


def test_rows_tell_what_they_keep(harness: Harness, designs: Designs) -> None:
    """Of many rows each, often asked and seldom written: rows keep what is computed of others, and answer for them."""
    counts = {"Owl": 1e6, "Cat": 200e6, "Bat": 200e6}
    told: list[bool] = []

    @settings(
        max_examples=max(4, EXAMPLES // 20), deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES
    )
    @given(program=behind_programs(owned=True))
    def check(program: Program) -> None:
        model = replace(
            program.model,
            entities={name: replace(one, count=counts[name]) for name, one in program.model.entities.items()},
            patterns={name: replace(one, traffic=Traffic(300.0)) for name, one in program.model.patterns.items()},
            writes={name: replace(one, traffic=Traffic(1.0)) for name, one in program.model.writes.items()},
        )
        design = designs.of(model, harness.name)
        told.append(any(isinstance(plan.node, Owned) for plan in design.plans.values()))
        run(program, model, harness.url(), design)

    check()
    assert sum(told) >= len(told) / 4


def test_rows_are_refused_one_by_one(harness: Harness, designs: Designs) -> None:
    """Of the rows that a write means, some may be refused; the others are written all the same."""
    refused: list[bool] = []

    @settings(
        max_examples=max(4, EXAMPLES // 20), deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES
    )
    @given(program=refused_programs())
    def check(program: Program) -> None:
        refused.append(any(kind == "error" for kind, _ in on_reference(program)))
        run(program, program.model, harness.url(), designs.of(program.model, harness.name))

    check()
    assert sum(refused) >= len(refused) / 4


def run(program: Program, model: Model, url: str, design: Design | None = None) -> None:
    """Plays a program on the reference and on an engine, and compares every outcome.

    What the design does not serve has to refuse the call, and is then left out for both: a write that only one of them
    does would tell them apart for the rest of the program.
    """
    clock = Clock()
    design = design or keyplan.design(model, keyplan.engine_of(url))
    keyplan.apply(model, url, design=design)
    with keyplan.open(model, url, clock=clock, new_id=clock.new_id) as store:
        served = []
        for operation in program.operations:
            if is_unserved(store, getattr(operation, "name", "")):
                with pytest.raises(UnsupportedError):
                    getattr(store, operation.name)(**operation.arguments)
            else:
                served.append(operation)
        program = replace(program, operations=served)

        levels = cycle(LEVELS)

        def call(name: str, arguments: Mapping[str, Any], cursor: Any) -> Any:
            more = {} if cursor is None else {"cursor": cursor}
            try:
                with kept_sums(store):
                    if name in model.patterns:
                        return at_level(store, name, next(levels), {**arguments, **more})
                    return getattr(store, name)(**arguments, **more)
            except UnsupportedError as error:
                if "ask for less at once" not in str(error):
                    raise
                reject()  # a range of centuries over a view in small time buckets

        def load(rows: Any) -> Any:
            with kept_sums(store):
                return store.load(rows)

        expected = on_reference(program)
        found = play(program, call, load, clock)
        for operation, one, other in zip(program.operations, expected, found, strict=True):
            differs = difference(model, operation, one, other)
            assert differs is None, f"{operation}: {differs}\nplan: {plan_of(store, operation)}"
        checked = store.verify()
        assert checked.ok, checked.problems


def at_level(store: Any, name: str, level: str | None, arguments: Mapping[str, Any]) -> Any:
    """The answer of a pattern whose call asks for a consistency: whatever it is, nothing is under way here, so that all
    see the same. A plan for less than that has to refuse it, and one for as much or more may not."""
    if level is None:
        return getattr(store, name)(**arguments)
    order = ("eventual", "session", "strong")
    try:
        return getattr(store, name)(consistency=level, **arguments)
    except ArgumentError as error:
        if "its plan reads with" not in str(error) or order.index(level) <= order.index(
            store.model.patterns[name].consistency
        ):
            raise
        return getattr(store, name)(**arguments)


def is_unserved(store: Any, name: str) -> bool:
    """A transaction is, if one of its writes is."""
    transaction = store.model.transactions.get(name)
    names = [name] if transaction is None else [part.write for part in transaction.parts]
    return bool(store.design.unserved.keys() & set(names))


@contextmanager
def kept_sums(store: Any) -> Iterator[None]:
    """Drops programs that take a sum which is kept out of the range of its type: that is refused, as documented."""
    try:
        yield
    except RangeError as error:
        kept = [
            f"'{view.entity}.{column}' would leave the range of a key"
            for view in store.design.views.values()
            for column in computed_of(store.model, view)
        ]
        if not any(said in str(error) for said in kept):
            raise
        reject()


def plan_of(store: Any, operation: Any) -> Any:
    name = getattr(operation, "name", "")
    plan = store.design.plans.get(name)
    return plan.node if plan is not None else store.design.writes.get(name)


def difference(model: Model, operation: Any, expected: Any, found: Any) -> str | None:
    """Where two outcomes differ; rows without an order are a set."""
    if expected[0] != found[0] or expected[0] != "answer":
        same = expected == found or (expected[0] == found[0] == "error" and of_several_rows(model, operation.name))
        return None if same else f"expected {expected!r}, found {found!r}"
    pattern = model.patterns.get(operation.name)
    one, other = expected[1], found[1]
    if pattern is not None and pattern.kind == "find" and not pattern.one and not pattern.order:
        if pattern.limit is not None:
            # Any rows will do, as long as there are as many.
            return None if len(one) == len(other) else f"expected {len(one)} rows, found {len(other)}"
        return unordered_difference(one, other)
    return first_difference(plain(one), plain(other))


def of_several_rows(model: Model, name: str) -> bool:
    """A call that writes several rows may be wrong in several ways; which of them is told is nobody's promise."""
    return name in model.transactions or (name in model.writes and bool(model.writes[name].children))


def plain(answer: Any) -> Any:
    return [*answer.rows, answer.cursor is None] if hasattr(answer, "rows") else answer


def unordered_difference(one: Any, other: Any) -> str | None:
    """A whole set is compared as one; of a first page or a limited answer, only how much it has."""
    if hasattr(one, "rows"):
        if (len(one.rows), one.cursor is None) != (len(other.rows), other.cursor is None):
            return f"expected {len(one.rows)} rows, found {len(other.rows)}"
        if one.cursor is not None:
            return None
        one, other = one.rows, other.rows
    # As text in which equal sets are equal.
    return first_difference(sorted(one, key=pformat), sorted(other, key=pformat))
