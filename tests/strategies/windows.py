"""Programs over readings that are asked for what they come to in ranges of time, whole hours or not."""

from __future__ import annotations

from hypothesis import strategies as st

from keyplan.model.load import parse_model
from tests.strategies.domains import chance
from tests.strategies.programs import Program, operations, rows

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


@st.composite
def windowed_models(draw: st.DrawFn) -> str:
    """Readings under their meter and time, or under a key of their own so that they move from hour to hour."""
    moving = chance(draw, 3)
    ttl = draw(st.sampled_from(["", "", "ttl: 2h", "ttl: 30d"]))
    patterns = []
    for number in range(draw(st.integers(1, 3))):
        computes = draw(
            st.lists(st.sampled_from(ANY if chance(draw, 2) else SUMS), min_size=1, max_size=4, unique=True)
        )
        where = draw(st.sampled_from(CONDITIONS))
        others = draw(st.sampled_from(OTHERS))
        told = f"{others} and {where}" if others else where
        group = draw(st.sampled_from(GROUPS))
        if "day between" in told or "day >=" in told:
            group = group.replace("hour: hour(at)", "day: day(day)")
        compute = ", ".join(f"c{place}: {text}" for place, text in enumerate(computes))
        grouped = f", group: {{ {group} }}" if group else ""
        rate = draw(st.sampled_from(["300/s", "3/s"]))
        patterns.append(
            f'  p{number}: {{ from: Reading, compute: {{ {compute} }}, where: "{told}"{grouped}, '
            f"rows: {draw(st.sampled_from(['20', '2000', '20000']))}, rate: {rate} }}"
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
def windowed_programs(draw: st.DrawFn) -> Program:
    """A model of them with rows and operations."""
    text = draw(windowed_models())
    model = parse_model(text)
    loaded = draw(rows(model, 20))
    return Program(text, loaded, draw(operations(model, loaded, 16)))
