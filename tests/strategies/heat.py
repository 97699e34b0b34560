"""Models whose rows are written so often that they are kept otherwise where they are kept twice."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from keyplan.model.load import parse_model
from keyplan.model.model import Model
from keyplan.model.pattern import Traffic
from tests.strategies.domains import among

LOGS = """
keyplan: 1
name: logs
entities:
  {host}
  Log:
    count: 500M
    fields:
      lid: ulid, key
      at: timestamp, now
      host: string(10), distinct 500, top {hosts}%
      level: enum(low {low}%, high {high}%)
      topic: string(12), distinct {topics}
      body: text({body})
patterns:
{patterns}
writes:
{writes}
{transactions}
"""
PATTERNS = (
    'one: { find: Log, where: "lid = :lid" }',
    'of: { find: Log, where: "host = :h", order: at desc, page: 50 }',
    'about: { find: Log, where: "topic = :t", order: at desc, page: 20 }',
    'levels: { find: Log, where: "level = :l", order: at desc, page: 20 }',
    'these: { find: Log, where: "host = :h and level = :l", order: at desc, page: 20 }',
    "high: { find: Log, where: \"host = :h and level = 'high'\", order: at desc, page: 20 }",
    'many: { from: Log, compute: { n: count() }, where: "host = :h" }',
)
WRITES = (
    'edit: { update: Log, set: [topic], where: "lid = :lid" }',
    'grade: { update: Log, set: [level], where: "lid = :lid" }',
    'forget: { delete: Log, where: "lid = :lid" }',
)
LOGGED = (300.0, 500.0, 800.0, 1200.0, 1900.0, 25_000.0)
"""Lines a second: of a partition's 1,000 units, of twice as many in transactions, and of more than 32 shards."""
HOST = 'Host: { count: 500, fields: { name: "string(10), key", lines: int } }'
SEE = 'see: { update: Host, add: [lines], where: "name = :name" }'
ASKED = (0.1, 10.0, 50.0)
"""Few enough for all patterns to read the same key."""


@st.composite
def hot_problems(draw: st.DrawFn) -> Model:
    """Lines of logs, read by one or more keys, some of them strongly: then there may be several items of each."""
    asked = draw(st.lists(among(*PATTERNS), min_size=2, max_size=4, unique=True))
    others = draw(st.lists(among(*WRITES), max_size=2, unique=True))
    high = draw(among(5, 50))
    together = draw(st.booleans())
    text = LOGS.format(
        host=HOST if together else "",
        hosts=draw(among(3, 50, 90)),
        low=100 - high,
        high=high,
        topics=draw(among(20, 100_000)),
        body=draw(among(300, 1500)),
        patterns="\n".join(f"  {one}" for one in asked),
        writes="\n".join(f"  {one}" for one in ("log: { create: Log }", *([SEE] if together else []), *others)),
        transactions="transactions: { both: { writes: [log, see], rate: 100/s } }" if together else "",
    )
    model = parse_model(text)
    patterns = {
        name: replace(
            one,
            traffic=Traffic(draw(among(*ASKED))),
            p99_ms=draw(among(None, None, None, 20.0)),
            consistency=draw(among("eventual", "strong", "strong")),
        )
        for name, one in model.patterns.items()
    }
    writes = {name: replace(one, traffic=Traffic(draw(among(*ASKED)))) for name, one in model.writes.items()}
    writes["log"] = replace(model.writes["log"], traffic=Traffic(draw(among(*LOGGED))))
    return replace(model, patterns=patterns, writes=writes)
