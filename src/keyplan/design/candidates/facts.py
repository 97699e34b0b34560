"""Statistics of candidate views: entries, partitions, bytes, and the heat of the hottest partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from keyplan.design.needs.computed import computed_behind, computed_of
from keyplan.design.statistics.derived import CUT_SECONDS, Statistics, peak_rate
from keyplan.design.statistics.spread import usual_entries
from keyplan.design.statistics.together import shares_in_transactions
from keyplan.design.statistics.weakly import remembered
from keyplan.engines.work import CostModel, EmbedFacts, ViewFacts, average_part_bytes
from keyplan.model.entity import Role
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import Condition, Path, term_paths
from keyplan.model.types import Type
from keyplan.model.values import average_bytes
from keyplan.model.write import Write
from keyplan.plan.dangling import dangling_role
from keyplan.plan.types import measure_type
from keyplan.plan.view import COPIES, COUNT, Embed, Part, View

FIXED_BYTES = {"int": 8, "decimal": 8, "float": 8, "bool": 1, "date": 10, "timestamp": 24, "uuid": 36, "ulid": 26}


def most_bytes(kind: Type) -> float:
    """The largest a value of a type can be."""
    if kind.of is not None:
        return (kind.most or float("inf")) * most_bytes(kind.of)
    if kind.kind == "enum":
        return max(len(name.encode()) for name, _ in kind.values)
    if kind.kind in FIXED_BYTES:
        return float(FIXED_BYTES[kind.kind])
    return float(kind.most or (512 if kind.kind == "string" else 100_000))


def marks_of(model: Model, view: View) -> list[Path]:
    """The paths behind references on which the groups and sums of a view with measures depend."""
    if not view.measures:
        return []
    texts = [part.path for part in view.parts if part.path]
    texts += [str(path) for measure in view.measures for path in term_paths(measure.term)]
    paths = (path_of(text, model, view.entity) for text in sorted(set(texts)))
    return [path for path in paths if path.roles]


@dataclass(frozen=True)
class _KeyFacts:
    rows: float
    partitions: float
    bytes: float
    hottest: float
    """The share of the entries that the largest partition holds."""
    writes: float
    """Peak entries written per second in the hottest partition, updates not included."""
    updates: tuple[tuple[frozenset[str], float, float], ...]
    """Columns that an update sets, how often, and how often together with other rows: entries that hold none of them
    are not written."""
    together: float = 0.0
    """Those of `writes` that come with a write of another row."""
    partition_bytes: float = 0.0
    """Those of `bytes` that are of the partition."""


class Facts:
    """Works out `ViewFacts`."""

    def __init__(self, model: Model, statistics: Statistics, costs: CostModel | None = None) -> None:
        self.model = model
        self._field_bytes = costs.field_bytes if costs is not None else lambda path, type: average_bytes(type)
        self._part_bytes = costs.part_bytes if costs is not None else average_part_bytes
        self.statistics = statistics
        self._shares = remembered(self._share)
        self._is_computed = remembered(self._computed)
        self._keys: dict[tuple[object, ...], _KeyFacts] = {}
        self._bytes: dict[tuple[str, str], tuple[float, float]] = {}
        self._row_bytes: dict[str, float] = {}
        self._joined = shares_in_transactions(model)

    def multiplicity(self, view: View) -> float:
        """Entries per row: one, but for a set's elements or a text's words."""
        return usual_entries(self.model, view)

    def share(self, view: View) -> float:
        """The share of rows that have an entry."""
        return self._shares(view)

    def _share(self, view: View) -> float:
        if dangling_role(self.model, view) is not None:
            return 0.0  # a reference leads to a row, in the ordinary course
        asked = {str(condition.path) for condition in view.where}
        having = [part.path for part in view.parts if part.path and part.path not in asked and not part.or_missing]
        paths = dict.fromkeys(path_of(text, self.model, view.entity) for text in having)
        return self.statistics.share(view.entity, (*view.where, *(Condition(path, "present") for path in paths)))

    def distinct(self, entity: str, parts: Sequence[Part]) -> float:
        """How many values a sequence of parts has together."""
        many = 1.0
        whole = []
        for part in parts:
            if part.ways > 1:
                many *= part.ways
                continue
            path = path_of(part.path, self.model, entity)
            values = self.statistics.distinct(entity, path, part.cut)
            if part.cut in ("each", "words"):
                many *= values  # a row has several, so that there may be more than rows
                continue
            whole.append((path, part.cut))
            many *= (values + part.or_missing) / values
        return many * self.statistics.together(entity, whole)

    def of(self, view: View, readers: float = 0.0) -> ViewFacts:
        """The facts of one view; `readers` is the peak rate of the requests that may read it, by hottest share."""
        entity = view.entity
        key = self._key(view)
        most_rows = max(1.0, key.rows * key.hottest)
        if view.measures and view.partition:
            most_rows = min(most_rows, self.distinct(entity, view.sort))  # a large partition has no more groups
        values: dict[str, float] = {}
        most = 0.0
        for text in view.holds:
            values[text], largest = self._value_bytes(entity, text)
            most += largest
        for measure in view.measures:
            values[measure.name] = self._field_bytes(measure.name, measure_type(self.model, entity, measure))
        if view.measures:
            values[COUNT] = self._field_bytes(COUNT, Type("int"))
        embeds: dict[str, EmbedFacts] = {}
        for embed in view.embeds:
            self._embed(entity, embed, "", 1.0, 1.0, embeds)
        if entity not in self._row_bytes:
            stored = self.model.entities[entity].stored
            self._row_bytes[entity] = sum(self._value_bytes(entity, column)[0] for column in stored)
        writes, together = key.writes, key.together
        if key.updates:
            held = {path.partition(".")[0] for path in self._deciding(view)}
            placing = {part.path.partition(".")[0] for part in view.parts}
            for columns, rate, joined in key.updates:
                if not columns.isdisjoint(held):
                    times = 1 if columns.isdisjoint(placing) else 2
                    writes += times * rate
                    together += times * joined
        return ViewFacts(
            key.rows,
            key.partitions,
            key.bytes,
            values,
            most,
            most_rows,
            writes,
            readers,
            embeds,
            key.hottest,
            self._row_bytes[entity],
            carried := self._marked(view),
            sum(carried.values()) * self.statistics.rows(entity),
            together,
            key.partition_bytes,
        )

    def _value_bytes(self, entity: str, text: str) -> tuple[float, float]:
        """Average and largest bytes of a path."""
        found = self._bytes.get((entity, text))
        if found is None:
            path = path_of(text, self.model, entity)
            type = self.model.column(entity, path).type
            mean = self._field_bytes(text, type) * self.statistics.path_present(entity, path)
            found = mean, most_bytes(type)
            self._bytes[(entity, text)] = found
        return found

    def _key(self, view: View) -> _KeyFacts:
        """What follows from the key and from computed values: views differ more often in what else they hold."""
        computed = tuple(text for text in view.holds if self._is_computed(view.entity, text))
        shape = (view.entity, view.partition, view.sort, view.where, bool(view.measures), computed)
        found = self._keys.get(shape)
        if found is None:
            found = self._keys[shape] = self._key_facts(view)
        return found

    def _computed(self, entity: str, text: str) -> bool:
        return self.model.column(entity, path_of(text, self.model, entity)).computed is not None

    def _key_facts(self, view: View) -> _KeyFacts:
        entity = view.entity
        share, multiplicity = self.share(view), self.multiplicity(view)
        rows = self.statistics.rows(entity) * share * multiplicity
        if view.measures:
            rows = min(rows, self.distinct(entity, view.parts))
        partitions = min(rows, self.distinct(entity, view.partition)) if view.partition else 1.0
        writes, together, updates = 0.0, 0.0, []
        usual = self.write_share(view)
        having = min(1.0, share * multiplicity if not view.where else 1.0)
        having = 0.0 if dangling_role(self.model, view) is not None else having
        for write, times in self.statistics.written(entity):
            rate = peak_rate(write.traffic) * times * max(write.traffic.top or 0.0, usual) * having
            if write.kind in ("update", "change") and write.entity == entity and not write.children:
                columns = frozenset(column.partition(".")[0] for column in (*write.sets, *write.adds))
                updates.append((columns, rate, rate * self.joined(write, entity)))
            else:
                writes += rate
                together += rate * self.joined(write, entity)
        computed = 0.0
        moving = computed_of(self.model, replace(view, holds=()))
        for column, role in computed_of(self.model, view).items():
            times_two = 2.0 if column in moving else 1.0  # an entry that moves is deleted and put
            for write, times in self.statistics.written(role.entity):
                rate = peak_rate(write.traffic) * times * max(write.traffic.top or 0.0, usual) * having
                computed += times_two * rate
        computed += self._followed(view, usual) * having
        partition = self.key_bytes(entity, view.partition)
        key, hottest = partition + self.key_bytes(entity, view.sort), self.hottest_share(view)
        return _KeyFacts(
            rows,
            max(1.0, partitions),
            key,
            hottest,
            writes + computed,
            tuple(updates),
            together + computed,
            partition,
        )

    def _followed(self, view: View, usual: float) -> float:
        """Writes per second of the hottest partition by what is computed behind references: every row that copies it
        has an entry that changes, or moves."""
        keyed = computed_behind(self.model, replace(view, holds=()))
        here, found = self.model.entities[view.entity], 0.0
        for behind, columns in computed_behind(self.model, view).items():
            target = self.model.entities[here.roles[behind[0]].entity]
            share = self.statistics.present(view.entity, here.roles[behind[0]].columns[0])
            each = self.statistics.rows(view.entity) * share / max(1.0, self.statistics.rows(target.name))
            times_two = 1.0 if columns.isdisjoint(keyed.get(behind, ())) else 2.0
            for write, times in self.statistics.written(target.roles[behind[1]].entity):
                found += times_two * peak_rate(write.traffic) * times * each * usual
        return found

    def joined(self, write: Write, entity: str) -> float:
        """The share of a write's calls that write a row of an entity together with other rows, as one step."""
        if write.entity != entity or (write.children and write.by_key):
            return 1.0
        return self._joined.get(write.name, 0.0)

    def _deciding(self, view: View) -> Iterator[str]:
        """The paths whose change changes an entry."""
        yield from view.holds
        for part in view.parts:
            yield from (part.path, *part.also)
        yield from (str(condition.path) for condition in view.where)
        for measure in view.measures:
            yield from (str(path) for path in term_paths(measure.term))

    def _marked(self, view: View) -> dict[str, float]:
        """What a home holds of the values behind references that groups depend on."""
        return {str(path): self._value_bytes(view.entity, str(path))[0] for path in marks_of(self.model, view)}

    def _embed(
        self, entity: str, embed: Embed, prefix: str, mean: float, most: float, found: dict[str, EmbedFacts]
    ) -> None:
        role = self.model.entities[entity].roles[embed.role]
        per_parent = mean * self.statistics.fan_out(entity, embed.role)
        hottest = most * (role.most or max(per_parent * 100, 1000.0))
        if embed.limit is not None:
            per_parent, hottest = min(per_parent, float(embed.limit)), min(hottest, float(embed.limit))
        values = {}
        for text in embed.holds:
            values[text], _ = self._value_bytes(role.entity, text)
        name = f"{prefix}{embed.role}"
        writes, together = self._written_inside(role, embed)
        key = self.key_bytes(role.entity, embed.sort)
        found[name] = EmbedFacts(per_parent, hottest, key, values, writes, together)
        for inner in embed.embeds:
            self._embed(role.entity, inner, f"{name}.", per_parent, hottest, found)

    def _written_inside(self, role: Role, embed: Embed) -> tuple[float, float]:
        """How often per second rows of one parent are written, at the peak, and how often together with others; of
        updates, those that set what is held there."""
        held = {path.partition(".")[0] for path in (*embed.holds, *(part.path for part in embed.sort))}
        usual = min(self.statistics.hottest_share(role.entity, Path((), column)) for column in role.columns)
        writes = together = 0.0
        for write, times in self.statistics.written(role.entity):
            changed = {column.partition(".")[0] for column in (*write.sets, *write.adds)}
            own = write.kind in ("update", "change") and write.entity == role.entity and not write.children
            if own and held.isdisjoint(changed):
                continue
            rate = peak_rate(write.traffic) * times * max(write.traffic.top or 0.0, usual)
            writes += rate
            together += rate * self.joined(write, role.entity)
        return writes, together

    def hottest_share(self, view: View) -> float:
        """The share of the entries that the largest partition holds."""
        shares = [1.0]
        share = 1.0
        for part in view.partition:
            if part.ways > 1:
                continue
            path = path_of(part.path, self.model, view.entity)
            found = self.statistics.hottest_share(view.entity, path, part.cut)
            if part.cut in CUT_SECONDS:
                share *= found  # what somebody does is spread over time, while other columns may go together
            else:
                shares.append(found)
        share *= min(shares)
        columns = {part.path for part in view.partition if part.cut is None}
        here = self.model.entities[view.entity]
        if any(set(key) <= columns for key in (here.key, *here.unique)):
            share = 1.0 / max(1.0, self.statistics.rows(view.entity))
        for part in view.partition:
            share /= part.ways
        return share

    def write_share(self, view: View) -> float:
        """The share of writes that go to the hottest partition; a time bucket does not cool the present one."""
        shares = [1.0]
        for part in view.partition:
            if part.ways > 1 or part.cut in CUT_SECONDS:
                continue
            path = path_of(part.path, self.model, view.entity)
            if self.model.column(view.entity, path).type.kind in ("date", "timestamp"):
                continue
            shares.append(self.statistics.hottest_share(view.entity, path, part.cut))
        share = min(shares)
        for part in view.partition:
            if part.cut != COPIES:
                share /= part.ways
        return share

    def key_bytes(self, entity: str, parts: Sequence[Part]) -> float:
        """Average bytes of the values of key parts."""
        total = 0.0
        for part in parts:
            if part.ways > 1:
                total += 2
                continue
            kind = self.model.column(entity, path_of(part.path, self.model, entity)).type
            total += self._part_bytes(kind, part.cut) + 1
        return total
