"""Rows, distinct values, fan-out, bytes and heat of anything in a model, derived in one place.

Means decide costs; the hottest and the largest decide what is feasible. Where the model is silent, the assumptions
below stand in, and they are the only ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from math import log, prod
from typing import Any

from keyplan.design.statistics.set_together import fields_set_together
from keyplan.design.statistics.spread import elements_in, words_in
from keyplan.design.statistics.weakly import remembered
from keyplan.model.entity import EXPIRES, Role
from keyplan.model.model import Model
from keyplan.model.pattern import Ago, Condition, Literal, Param, Path, Traffic
from keyplan.model.values import average_bytes
from keyplan.model.write import Write, rows_along

ASSUMED_ROWS = 1000.0
ASSUMED_IN_LENGTH = 10.0
ASSUMED_RANGE = 0.3
ASSUMED_BETWEEN = 0.1
ASSUMED_PREFIX = 0.05
ASSUMED_VOCABULARY = 5000.0
ASSUMED_RETENTION_S = 365 * 86400.0
HOT_FACTOR = 10.0
"""Without a stated skew, the hottest value is taken to have this many times the mean."""
FEW_MISSING = 0.01
"""Of the rows that may lack a value, the share that does though writes set it with another one that is there."""
CUT_SECONDS = {"minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0, "month": 2629800.0, "year": 31557600.0}


Part = tuple[Path, str | None]
"""A path, and what its values are cut to."""


class Statistics:
    """The figures of one model; every method is pure and cached."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._values = remembered(self._distinct)
        self._joint = remembered(self._combinations)
        self._hottest = remembered(self._hottest_share)
        self._rows_matched = remembered(self._matched)
        self._most_rows_matched = remembered(self._most_matched)
        self.key_matches: dict[tuple[object, ...], Any] = {}
        """What `match_key` has found, per key and need."""
        self.candidates: dict[tuple[object, ...], list[Any]] = {}
        """The views that are candidates for an entity, by what is asked of it."""
        self.view_matches: dict[object, Any] = {}
        """The same per view: its key need not be looked at again."""
        self._rows_written = {name: self._written_by(write) for name, write in model.writes.items()}
        self._written: dict[str, list[tuple[Write, float]]] = {}
        for write in model.writes.values():
            for name, times in self._rows_written[write.name]:
                self._written.setdefault(name, []).append((write, times))
        self._companies = fields_set_together(model)
        self._created = {name: sum(self._creates(name, ("create", "upsert"))) for name in model.entities}

    # rows and rates

    def rows(self, entity: str) -> float:
        return self.model.entities[entity].count or ASSUMED_ROWS

    def create_rate(self, entity: str) -> float:
        """Rows created per second, those created as children included; an upsert is taken for one that creates."""
        return self._created[entity]

    def growth_rate(self, entity: str) -> float:
        """Rows per second that are new for certain: an upsert may be of rows that are there."""
        return sum(self._creates(entity, ("create",)))

    def _creates(self, entity: str, kinds: tuple[str, ...]) -> Iterable[float]:
        for write in self.model.writes.values():
            if write.kind in kinds:
                for name, times in self._rows_written[write.name]:
                    if name == entity:
                        yield write.traffic.rate * times

    def written(self, entity: str) -> list[tuple[Write, float]]:
        """The writes that write rows of an entity, and how many of them a call writes on average."""
        return self._written.get(entity, [])

    def _written_by(self, write: Write) -> list[tuple[str, float]]:
        """The entities whose rows one call writes, and how many of each on average."""
        found = [(write.entity, 1.0 if write.by_key else (write.rows or 1.0))]
        for along in rows_along(self.model.entities, write):
            times = found[along.above][1] * self.fan_out(along.parent, along.role.name)
            found.append((along.role.entity, times))
        return found

    def most_rows_written(self, write: Write) -> float:
        """The most rows one call may write."""
        most = [1.0]
        for along in rows_along(self.model.entities, write):
            most.append(most[along.above] * (along.role.most or float("inf")))
        return sum(most)

    def retention_s(self, entity: str) -> float:
        """How long a row stays, in seconds: by its ttl, else by rows over creations."""
        ttl = self.model.entities[entity].ttl
        if ttl is not None:
            return ttl.ms / 1000
        rate = self.create_rate(entity)
        return self.rows(entity) / rate if rate else ASSUMED_RETENTION_S

    def fan_out(self, entity: str, role: str) -> float:
        """The mean number of rows behind a to-many role; 1 for a to-one."""
        step = self.model.entities[entity].roles[role]
        if not step.many:
            return 1.0
        mean = self.rows(step.entity) * self.present(step.entity, step.columns[0]) / self.rows(entity)
        return min(mean, float(step.most)) if step.most else mean

    # columns

    def present(self, entity: str, column: str) -> float:
        """The share of rows in which a column has a value."""
        if column == EXPIRES:
            return 1.0
        here = self.model.entities[entity]
        computed = here.columns[column].computed
        if computed is not None and computed.how in ("min", "max"):
            return min(1.0, self.fan_out(entity, computed.role))
        share = here.fields[here.columns[column].field].optional
        return 1.0 if share is None else share

    def path_present(self, entity: str, path: Path) -> float:
        share = 1.0
        for role in path.roles:
            step = self.model.entities[entity].roles[role]
            if not step.many:
                share *= self.present(entity, step.columns[0])
            entity = step.entity
        return share * self.present(entity, path.column)

    def all_present(self, entity: str, paths: Iterable[Path], given: Iterable[Path] = ()) -> float:
        """The share of rows in which every path has a value, of those in which the given ones have; the columns of one
        reference have theirs together, and so have fields that are always set together."""
        known = list(given)
        whole = self._present_together(entity, (*known, *paths))
        return min(1.0, whole / self._present_together(entity, known)) if known and whole else whole

    def _present_together(self, entity: str, paths: Iterable[Path]) -> float:
        shares: dict[tuple[tuple[str, ...], str | int], float] = {}
        for path in paths:
            holder = entity
            for depth, role in enumerate(path.roles):
                step = self.model.entities[holder].roles[role]
                if not step.many:
                    self._note(shares, holder, path.roles[:depth], role, self.present(holder, step.columns[0]))
                holder = step.entity
            field = self.model.entities[holder].columns[path.column].field if path.column != EXPIRES else EXPIRES
            self._note(shares, holder, path.roles, field, self.present(holder, path.column))
        return prod(shares.values())

    def _note(
        self,
        shares: dict[tuple[tuple[str, ...], str | int], float],
        entity: str,
        roles: tuple[str, ...],
        field: str,
        share: float,
    ) -> None:
        company = (roles, self._companies[entity].get(field, field))
        shares[company] = min(share, shares.get(company, 1.0))

    def bytes(self, entity: str, path: Path) -> float:
        """Average bytes of a value, weighted with the share of rows that have it."""
        column = self.model.column(entity, path)
        return average_bytes(column.type) * self.path_present(entity, path)

    def distinct(self, entity: str, path: Path, cut: str | None = None) -> float:
        """How many values a path has over all rows."""
        return self._values(entity, path, cut)

    def _distinct(self, entity: str, path: Path, cut: str | None) -> float:
        owner = self.model.entity_at(entity, path.roles)
        rows = self.rows(owner)
        here = self.model.entities[owner]
        column = here.columns[path.column]
        written = here.fields.get(column.field)
        kind = column.type.kind
        if cut in CUT_SECONDS:
            many = max(1.0, self.retention_s(owner) / CUT_SECONDS[cut])
        elif cut == "each":
            many = (written.distinct if written and written.distinct else None) or min(1000.0, rows)
        elif cut == "words":
            many = min(ASSUMED_VOCABULARY, rows * words_in(column.type))
        elif written is not None and written.distinct:
            many = written.distinct
        elif (path.column,) in (here.key, *here.unique):
            many = rows
        elif written is not None and written.target is not None:
            role = here.roles[written.name]
            inner = self.model.entities[role.entity].key[role.columns.index(path.column)]
            many = min(rows, self.distinct(role.entity, Path((), inner)))
        elif kind == "bool":
            many = 2.0
        elif kind == "enum":
            many = float(len(column.type.values))
        elif kind == "date":
            many = max(1.0, self.retention_s(owner) / 86400.0)
        elif kind == "int":
            many = self._part_of_key(owner, path.column) or min(1000.0, rows)
        elif kind in ("decimal", "float"):
            many = min(10000.0, rows)
        else:
            many = rows
        return max(1.0, min(many, self.rows(entity)))

    def together(self, entity: str, parts: Iterable[Part]) -> float:
        """How many combinations of values several paths have over the rows that have them all.

        What a reference is made of, and what lies behind it, goes together: there are no more combinations than rows
        there. All else is taken to be independent, up to the number of rows.
        """
        return self._joint(entity, tuple(dict.fromkeys(parts)))

    def _combinations(self, entity: str, parts: tuple[Part, ...]) -> float:
        here = self.model.entities[entity]
        having = self.rows(entity) * self.all_present(entity, (path for path, _ in parts))
        own = {path.column for path, cut in parts if not path.roles and cut is None}
        if any(set(key) <= own for key in (here.key, *here.unique)):
            return max(1.0, having)
        many, left = 1.0, list(parts)
        references = (role for role in here.roles.values() if not role.many)
        for role in sorted(references, key=lambda role: -len(role.columns)):
            behind = {part: inner for part in left if (inner := self._behind(role, part)) is not None}
            if len(behind) > 1:
                many *= self.together(role.entity, behind.values())
                left = [part for part in left if part not in behind]
        for path, cut in left:
            many *= self.distinct(entity, path, cut)
        return max(1.0, min(many, having))

    def _behind(self, role: Role, part: Part) -> Part | None:
        """A part as seen from the row that a reference leads to; None if it is not there."""
        path, cut = part
        if path.roles[:1] == (role.name,):
            return Path(path.roles[1:], path.column), cut
        if path.roles or cut is not None or path.column not in role.columns:
            return None
        return Path((), self.model.entities[role.entity].key[role.columns.index(path.column)]), None

    def _part_of_key(self, entity: str, column: str) -> float | None:
        """A plain part of a composite key tells apart the rows that share its other parts."""
        here = self.model.entities[entity]
        if column not in here.key or len(here.key) < 2:
            return None
        others, plain = [], 0
        for part in here.key:
            written = here.fields.get(here.columns[part].field)
            told = written is not None and (written.distinct or written.target is not None)
            if here.columns[part].type.kind == "int" and not told:
                plain += 1  # nothing is known of it either: such parts share what is left evenly
            else:
                others.append((Path((), part), None))
        return float(max(1.0, self.rows(entity) / self.together(entity, others)) ** (1 / plain))

    def hottest_share(self, entity: str, path: Path, cut: str | None = None) -> float:
        """The share of an entity's rows that have the commonest value."""
        return self._hottest(entity, path, cut)

    def _hottest_share(self, entity: str, path: Path, cut: str | None) -> float:
        owner = self.model.entity_at(entity, path.roles)
        here = self.model.entities[owner]
        column = here.columns[path.column]
        written = here.fields.get(column.field)
        many = self.distinct(entity, path, cut)
        if cut is None and not path.roles and (path.column,) in (here.key, *here.unique):
            return 1.0 / self.rows(owner)
        if cut in CUT_SECONDS:
            return min(1.0, 2.0 / many)
        if written is not None:
            if written.top:
                return written.top
            if written.skew:
                return zipf_top(many, written.skew)
            if written.most and written.target:
                return min(1.0, written.most / self.rows(owner))
        if column.type.kind == "enum":
            return max(share for _, share in column.type.values)
        if column.type.kind == "bool" and column.type.values:
            share = column.type.values[0][1]
            return max(share, 1 - share)
        if many >= self.rows(entity):
            return 1.0 / many
        return min(1.0, HOT_FACTOR / many)

    # conditions

    def selectivity(self, entity: str, condition: Condition) -> float:
        """The share of rows that meet one condition."""
        path, op = condition.path, condition.op
        if self.model.is_many(entity, path.roles):
            return self.share(entity, (condition,))
        if op in ("present", "missing"):
            share = self.path_present(entity, path)
            return share if op == "present" else 1 - share
        if op == "search":
            searched = (path, *condition.also)
            words = sum(words_in(self.model.column(entity, p).type) * self.path_present(entity, p) for p in searched)
            return min(1.0, words / self.distinct(entity, path, "words"))
        column = self.model.column(entity, path)
        present = self.path_present(entity, path)
        if op == "contains":
            return min(1.0, elements_in(column.type) / self.distinct(entity, path, "each"))
        many = self.distinct(entity, path, condition.cut)
        if op == "=":
            operand = condition.operands[0]
            if isinstance(operand, Literal) and condition.cut is None:
                return self._share_of(column.type.values, operand.value, many) * present
            return present / many
        if op == "!=":
            operand = condition.operands[0]
            if isinstance(operand, Literal):
                return present * (1 - self._share_of(column.type.values, operand.value, many))
            return present * (1 - 1 / many)
        if op == "in":
            return self._listed_share(column.type.values, condition, many) * present
        if op == "begins_with":
            return ASSUMED_PREFIX * present
        return present * self._range_share(entity, condition)

    def share(self, entity: str, conditions: Iterable[Condition]) -> float:
        """The share of rows that meet all conditions, taken to be independent of each other but for what references
        keep together.

        Those over a to-many role hold if any of the children meets them; with the same beginning, they speak of the
        same child.
        """
        share = 1.0
        equal: list[Condition] = []
        there: list[Path] = []
        others: list[Path] = []
        missing: list[Path] = []
        behind: dict[tuple[str, ...], list[Condition]] = {}
        for condition in conditions:
            roles = condition.path.roles
            many = next((n for n in range(1, len(roles) + 1) if self.model.is_many(entity, roles[:n])), 0)
            if many:
                behind.setdefault(roles[:many], []).append(condition)
            elif condition.op in ("present", "missing"):
                (there if condition.op == "present" else missing).append(condition.path)
            elif self._names_values(entity, condition):
                equal.append(condition)
                others.append(condition.path)
            else:
                share *= self.selectivity(entity, condition)
                others.append(condition.path)
        share *= self.all_present(entity, there, others)
        for path in missing:
            left = 1.0 - self.all_present(entity, (path,), (*there, *others))
            share *= max(left, FEW_MISSING * (1.0 - self.path_present(entity, path)))
        if len(equal) == 1:
            share *= self.selectivity(entity, equal[0])
        elif equal:
            values = prod(self.in_length(condition) for condition in equal if condition.op == "in")
            among = self.together(entity, ((condition.path, condition.cut) for condition in equal))
            share *= self.all_present(entity, (condition.path for condition in equal)) * min(1.0, values / among)
        for roles, some in behind.items():
            owner = self.model.entity_at(entity, roles[:-1])
            child = self.model.entity_at(entity, roles)
            each = self.share(child, (_seen_from(condition, len(roles)) for condition in some))
            share *= any_of(each, self.fan_out(owner, roles[-1]))
            for depth in range(len(roles) - 1):
                holder = self.model.entity_at(entity, roles[:depth])
                share *= self.present(holder, self.model.entities[holder].roles[roles[depth]].columns[0])
        return share

    def _names_values(self, entity: str, condition: Condition) -> bool:
        """Whether a condition asks for values of which any is as likely as another."""
        if condition.op not in ("=", "in"):
            return False
        told = bool(self.model.column(entity, condition.path).type.values) and condition.cut is None
        return not (told and all(isinstance(operand, Literal) for operand in condition.operands))

    def _listed_share(self, values: tuple[tuple[str, float], ...], condition: Condition, many: float) -> float:
        """The share of rows that have one of the values of an `in`."""
        if condition.cut is None and all(isinstance(operand, Literal) for operand in condition.operands):
            listed = {operand.value for operand in condition.operands if isinstance(operand, Literal)}
            return min(1.0, sum(self._share_of(values, value, many) for value in listed))
        return min(1.0, self.in_length(condition) / many)

    def _share_of(self, values: tuple[tuple[str, float], ...], value: object, many: float) -> float:
        for name, share in values:
            if name == value or (isinstance(value, bool) and name == "true"):
                return share if value is not False else 1 - share
        return 1.0 / many

    def _range_share(self, entity: str, condition: Condition) -> float:
        owner = self.model.entity_at(entity, condition.path.roles)
        ago = [operand for operand in condition.operands if isinstance(operand, Ago)]
        if ago:
            share = min(1.0, ago[0].ms / 1000 / self.retention_s(owner))
            return share if condition.op in (">", ">=") else 1 - share
        return ASSUMED_BETWEEN if condition.op == "between" else ASSUMED_RANGE

    def in_length(self, condition: Condition) -> float:
        """How many values an `in` usually has."""
        if len(condition.operands) == 1 and isinstance(condition.operands[0], Param):
            return condition.operands[0].size or ASSUMED_IN_LENGTH
        return float(max(1, len(condition.operands)))

    def fixes_one_row(self, entity: str, conditions: Iterable[Condition]) -> bool:
        """Whether equalities name the key or a unique set."""
        fixed = {c.path.column for c in conditions if c.op == "=" and not c.path.roles and c.cut is None}
        here = self.model.entities[entity]
        return any(set(columns) <= fixed for columns in (here.key, *here.unique))

    def matched(self, entity: str, conditions: Iterable[Condition], at_least: float = 0.0, fewer: float = 1.0) -> float:
        """The mean number of rows that meet all conditions; never under `at_least`, and `fewer` of what the counts
        imply: both follow from a pattern's `rows`, see `Need`."""
        return self._rows_matched(entity, tuple(conditions), at_least, fewer)

    def _matched(self, entity: str, conditions: tuple[Condition, ...], at_least: float, fewer: float) -> float:
        if self.fixes_one_row(entity, conditions):
            return 1.0
        many = self.rows(entity) * self.share(entity, conditions) * fewer
        return min(self.rows(entity), max(many, at_least))

    def most_matched(self, entity: str, conditions: Iterable[Condition]) -> float:
        """The most rows that may meet the conditions: those of the hottest value."""
        return self._most_rows_matched(entity, tuple(conditions))

    def _most_matched(self, entity: str, conditions: tuple[Condition, ...]) -> float:
        if self.fixes_one_row(entity, conditions):
            return 1.0
        share = when = 1.0
        for condition in conditions:
            if condition.op in ("=", "contains", "search"):
                operand = condition.operands[0]
                if isinstance(operand, Literal):
                    share = min(share, self.selectivity(entity, condition))
                    continue
                cut = {"contains": "each", "search": "words"}.get(condition.op, condition.cut)
                found = self._hottest_behind(entity, condition.path, cut) * self._having(entity, condition)
                if cut in CUT_SECONDS:
                    when *= found  # what somebody does is spread over time, while other values may go together
                else:
                    share = min(share, found)
            elif condition.op == "in":
                if not self._names_values(entity, condition):
                    share = min(share, self.selectivity(entity, condition))
                    continue
                hottest = self._hottest_behind(entity, condition.path, condition.cut)
                share = min(share, hottest * self.in_length(condition) * self._having(entity, condition))
            elif condition.op in ("present", "missing"):
                share = min(share, self.selectivity(entity, condition))
            elif any(isinstance(operand, Ago) for operand in condition.operands):
                share = min(share, 1.0) * self._range_share(entity, condition)
        return max(1.0, self.rows(entity) * min(1.0, share) * when)

    def _hottest_behind(self, entity: str, path: Path, cut: str | None) -> float:
        """The largest share of rows that lead to one value: each child that has it may have another parent."""
        share = self.hottest_share(entity, path, cut)
        for depth, role in enumerate(path.roles):
            share *= max(1.0, self.fan_out(self.model.entity_at(entity, path.roles[:depth]), role))
        return min(1.0, share)

    def _having(self, entity: str, condition: Condition) -> float:
        """The share of rows that have a value at all, of which the hottest one has its share."""
        plain = condition.op in ("=", "in") and not self.model.is_many(entity, condition.path.roles)
        return self.path_present(entity, condition.path) if plain else 1.0

    def is_unbounded(self, entity: str, conditions: Iterable[Condition]) -> bool:
        """Whether the conditions name the rows that point at something, and nothing tells how many these may be."""
        pointing = False
        for condition in conditions:
            if condition.op == "=" and not condition.path.roles and condition.cut is None:
                here = self.model.entities[entity]
                written = here.fields.get(here.columns[condition.path.column].field)
                if written is None or written.target is None:
                    continue
                if written.most or written.top or written.skew:
                    return False
                pointing = True
        return pointing


def any_of(share: float, many: float) -> float:
    """The chance that some of so many rows, on average, meet what a share of all of them meets."""
    none = float((1 - min(1.0, share)) ** max(1.0, many))
    return min(1.0, many) * (1 - none)


def _seen_from(condition: Condition, depth: int) -> Condition:
    """A condition as seen from the row behind its first roles."""
    also = tuple(Path(path.roles[depth:], path.column) for path in condition.also)
    return replace(condition, path=Path(condition.path.roles[depth:], condition.path.column), also=also)


@cache
def zipf_top(values: float, exponent: float) -> float:
    """The share of the commonest of so many values under Zipf's law."""
    many = int(min(values, 10000))
    total = sum(1 / rank**exponent for rank in range(1, many + 1))
    if values > many:
        if abs(exponent - 1) < 1e-9:
            total += log(values / many)
        else:
            total += (float(values) ** (1 - exponent) - float(many) ** (1 - exponent)) / (1 - exponent)
    return min(1.0, 1 / float(total))


def peak_rate(traffic: Traffic) -> float:
    """The highest sustained rate per second."""
    return traffic.rate * traffic.peak
