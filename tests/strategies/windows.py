"""Programs over readings that are asked for what they come to in ranges of time, whole hours or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from keyplan.model.load import parse_model
from tests.strategies.domains import among, chance
from tests.strategies.programs import Program, operations, other_versions, rows

MODEL = """
keyplan: 1
name: meters
entities:
  Reading:
    count: 30M
    {key}
    {ttl}
    fields:
      {fields}
      meter: {meter}
      at: timestamp
      day: date
      value: decimal(2), optional 40%
      n: int, default 0
      kind: enum(a 50%, b 50%), optional 20%
patterns:
{patterns}
  reading: {{ find: Reading, where: "{where}", rate: 1/s }}
  span: {{ find: Reading, where: "meter = :meter and at between :start and :end", order: at, page: 3, rate: 1/s }}
writes:
  report: {{ create: Reading, rate: 0.1/s }}
  replace: {{ upsert: Reading, rate: 0.1/s }}
  change: {{ update: Reading, set: [{changed}], where: "{where}", rate: 0.01/s }}
  add: {{ update: Reading, add: [n], where: "{where}", rate: 0.01/s }}
  forget: {{ delete: Reading, where: "{where}", rate: 0.01/s }}
"""
CONDITIONS = (
    "at between :start and :end",
    "at between :start and :end",
    "at >= :start and at < :end",
    "at > :start and at <= :end",
    "at >= :start",
    "at < :end",
    "at >= ago('1h') and at < :end",
    "day(at) = :day",
    "hour(at) between :start and :end",
    "day(at) >= :day and at < :end",
    "day between :first and :last",
    "day >= :first",
)
OTHERS = (
    "meter = :meter",
    "meter = :meter",
    "meter = :meter",
    "meter in :meters",
    "meter = :meter and kind = :kind",
    "",
)
GROUPS = ("", "", "hour: hour(at)", "day: day(at)", "month: month(at)", "hour: hour(at), kind: kind", "week: week(at)")
SUMS = ("sum(value)", "count()", "sum(n)", "avg(value)", "sum(n * value)")
ANY = (*SUMS, "min(value)", "max(value)", "max(at)", "min(n)", "count()")


@dataclass(frozen=True)
class Asked:
    """What aggregates are drawn from."""

    conditions: Sequence[str] = CONDITIONS
    others: Sequence[str] = OTHERS
    groups: Sequence[str] = GROUPS
    sums: Sequence[str] = SUMS
    any: Sequence[str] = ANY

    def without(self, *words: str) -> Asked:
        """The same but for what has one of these words in it."""
        parts = (self.conditions, self.others, self.groups, self.sums, self.any)
        return Asked(*([text for text in part if not any_of(words, text)] for part in parts))


def any_of(words: Sequence[str], text: str) -> bool:
    return any(word in text for word in words)


WHOLE = ("day(at) = :day", "hour(at) between :start and :end")
"""Conditions that cut no window."""
TOLD = Asked().without("ago(", "day between", "day >=", "n * value", "kind")
OF_METERS = replace(TOLD, conditions=(*TOLD.conditions, *WHOLE), others=OTHERS[:4])
"""What all readings of meters come to in stretches of time: mostly what is kept of hours and days can tell it."""
OF_KINDS = replace(OF_METERS, others=("meter = :meter and kind = :kind",))
"""The same of readings that have a kind."""


@st.composite
def windowed_models(draw: st.DrawFn, of_meters: bool = False) -> str:
    """Readings under their meter and time, or under a key of their own so that they move from hour to hour.

    Asked of meters, there are aggregates of all readings of one, and often beside them some of those that have a kind:
    what is kept for these has not all readings.
    """
    moving = chance(draw, 3)
    ttl = draw(among("", "", "ttl: 2h", "ttl: 30d"))
    patterns = []
    for number, asked in enumerate(draw(_asked(of_meters))):
        computes = draw(
            st.lists(among(*(asked.any if chance(draw, 2) else asked.sums)), min_size=1, max_size=4, unique=True)
        )
        where = draw(among(*asked.conditions))
        others = draw(among(*asked.others))
        told = f"{others} and {where}" if others else where
        group = draw(among(*asked.groups))
        if "day between" in told or "day >=" in told:
            group = group.replace("hour: hour(at)", "day: day(day)")
        compute = ", ".join(f"c{place}: {text}" for place, text in enumerate(computes))
        grouped = f", group: {{ {group} }}" if group else ""
        rate = draw(among("300/s", "3/s"))
        patterns.append(
            f'  p{number}: {{ from: Reading, compute: {{ {compute} }}, where: "{told}"{grouped}, '
            f"rows: {draw(among('20', '2000', '20000'))}, rate: {rate} }}"
        )
    return MODEL.format(
        key="" if moving else "key: [meter, at]",
        fields="rid: int, key" if moving else "",
        meter="int, distinct 1000",
        where="rid = :rid" if moving else "meter = :meter and at = :at",
        changed="value, kind, at" if moving else "value, kind",
        ttl=ttl,
        patterns="\n".join(patterns),
    )


@st.composite
def _asked(draw: st.DrawFn, of_meters: bool) -> list[Asked]:
    """What each aggregate of a model is drawn from."""
    if not of_meters or chance(draw, 4):
        return [Asked()] * draw(st.integers(1, 3))
    return [OF_METERS, *draw(st.lists(st.sampled_from([OF_KINDS, OF_KINDS, Asked()]), max_size=2))]


@st.composite
def windowed_programs(draw: st.DrawFn, of_meters: bool = False) -> Program:
    """A model of them with rows, some of which are given twice, and operations."""
    text = draw(windowed_models(of_meters))
    model = parse_model(text)
    loaded = draw(rows(model, 20))
    loaded += draw(other_versions(model, loaded))
    return Program(text, loaded, draw(operations(model, loaded, 16)))
