"""Statistics for generated models: counts, rates and budgets are drawn apart, because they decide the design."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from keyplan.model.load import model_from, parse_model
from keyplan.model.model import Model
from keyplan.model.pattern import Traffic
from tests.strategies.behind import behind_models
from tests.strategies.crowds import crowded_problems
from tests.strategies.domains import among, chance
from tests.strategies.heat import hot_problems
from tests.strategies.models import entities, models
from tests.strategies.patterns import patterns
from tests.strategies.writes import writes

ROWS = (30.0, 3_000.0, 300_000.0, 30_000_000.0)
RATES = (0.001, 1.0, 50.0, 2000.0)
TARGETS: tuple[dict[str, dict[str, object]], ...] = (
    {},
    {},
    *({"dynamodb": {"partition_mb": size}} for size in ("0.01", "0.1", "1", "100")),
)
"""Partitions of any size, and such that have to be cut into shards or time buckets."""
BUDGETS = (None, None, None, 1000.0, 100.0, 20.0)

DESIGNS = int(os.environ.get("KEYPLAN_DESIGNS", "0"))
"""How many generated models the proofs of the designer take; 0: as many as suit a quick run."""


def proof(quick: int) -> settings:
    """Settings of a proof over generated models, of which a quick run takes so many."""
    return settings(
        max_examples=DESIGNS or quick,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
    )


@st.composite
def traffic(draw: st.DrawFn) -> Traffic:
    """A rate, sometimes with a peak or a hot value."""
    peak = draw(among(1.0, 1.0, 10.0))
    return Traffic(draw(among(*RATES)), peak, top=draw(among(None, None, 0.2)))


@st.composite
def with_statistics(draw: st.DrawFn, model: Model) -> Model:
    """The model with drawn counts, rates, latency budgets and consistencies."""
    busy = traffic()
    counted = {name: replace(one, count=draw(among(*ROWS))) for name, one in model.entities.items()}
    asked = {
        name: replace(
            one,
            traffic=draw(busy),
            rows=draw(among(None, None, 5.0)) if not one.one else None,
            p99_ms=draw(among(*BUDGETS)),
            consistency=draw(among("eventual", "eventual", "strong")),
        )
        for name, one in model.patterns.items()
    }
    changed = {name: replace(one, traffic=draw(busy)) for name, one in model.writes.items()}
    targets = draw(st.sampled_from(TARGETS))
    return replace(model, entities=counted, patterns=asked, writes=changed, targets=targets)


@st.composite
def problems(draw: st.DrawFn, most_entities: int = 3) -> Model:
    """A model to design for: generated, with drawn statistics."""
    return draw(with_statistics(parse_model(draw(models(most_entities)))))


@st.composite
def tiny_problems(draw: st.DrawFn) -> Model:
    """A model of few conditions: one or two entities, at most two patterns, every write; one of four is about what is
    computed behind references, which such a model seldom has otherwise."""
    if chance(draw, 3):
        # What wide writes find on their way would often be cheaper in keys that cover it, which not all engines keep.
        model = draw(behind_problems(wide=False))
        return replace(model, patterns=dict(list(model.patterns.items())[: draw(st.integers(1, 2))]))
    data: dict[str, Any] = {"keyplan": 1, "name": "tiny", "entities": draw(entities(2))}
    model = model_from(data)
    data["patterns"] = draw(patterns(model, 2))
    data["writes"] = draw(writes(model))
    return draw(with_statistics(model_from(data)))


TIMED = """
keyplan: 1
name: timed
entities:
  Sensor:
    fields:
      sensor_id: uuid, key
      name: string(20)
  Reading:
    {key}
    {ttl}
    fields:
      {own}
      sensor: Sensor, as readings
      at: timestamp
      value: int, distinct 50
patterns:
{patterns}
writes:
  report: {{ create: Reading }}
  correct: {{ update: Reading, where: "{by}", set: [value] }}
  forget: {{ delete: Reading, where: "{by}" }}
"""
TIMED_PATTERNS = (
    'latest: { find: Reading, where: "sensor = :s", order: at desc, limit: 20 }',
    'history: { find: Reading, where: "sensor = :s", order: at, page: 50 }',
    'between: { find: Reading, where: "sensor = :s and at between :a and :b", order: at, page: 50 }',
    "recent: { find: Reading, where: \"sensor = :s and at >= ago('7d')\", order: at desc, page: 50 }",
    'high: { find: Reading, where: "sensor = :s and value > :v", order: at desc, page: 10 }',
    'valued: { find: Reading, where: "value = :v", order: at desc, limit: 20 }',
    'on_day: { find: Reading, where: "sensor = :s and day(at) = :d", order: at, page: 50 }',
    'all_of: { find: Reading, where: "sensor = :s" }',
    'one: { find: Reading, where: "sensor = :s and at = :t", limit: 1, order: at }',
    'many: { from: Reading, compute: { n: count() }, where: "sensor = :s" }',
)


@st.composite
def timed_problems(draw: st.DrawFn) -> Model:
    """Readings of sensors by time, in partitions of some size: what is kept in time buckets."""
    keyed = draw(st.booleans())
    some = draw(st.lists(among(*TIMED_PATTERNS), min_size=1, max_size=3, unique=True))
    text = TIMED.format(
        key="key: [sensor, at]" if keyed else "note: by number",
        own="note: string(4), optional 5%" if keyed else "number: uuid, key",
        by="sensor = :sensor and at = :at" if keyed else "number = :number",
        ttl=draw(among("", "ttl: 30d", "ttl: 90d since at")),
        patterns="\n".join(f"  {one}" for one in some),
    )
    model = draw(with_statistics(parse_model(text)))
    count, days = draw(among(1e5, 1e7, 1e9)), draw(among(20, 400, 4000))
    sensors = draw(among(10.0, 1000.0))
    entities = {
        name: replace(one, count=count if name == "Reading" else sensors) for name, one in model.entities.items()
    }
    report = replace(model.writes["report"], traffic=Traffic(count / days / 86400))
    targets = {"dynamodb": {"partition_mb": draw(among("0.1", "1", "10", "100"))}}
    return replace(model, entities=entities, writes={**model.writes, "report": report}, targets=targets)


@st.composite
def behind_problems(draw: st.DrawFn, wide: bool = True) -> Model:
    """Rows by what is computed behind their references, which may be kept with them, in their keys, or not at all."""
    return draw(with_statistics(parse_model(draw(behind_models(wide=wide)))))


def any_problems(most_entities: int = 3) -> st.SearchStrategy[Model]:
    """Models of all kinds; of eight, one is about time, one about rows that are written often, one about values that
    most calls read or write, and one about what is computed behind references."""
    other = problems(most_entities)
    return st.one_of(
        other, other, other, other, timed_problems(), hot_problems(), crowded_problems(), behind_problems()
    )
