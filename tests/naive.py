"""A planner for tests: correct designs without any thought of cost.

Every entity has a home under its own key; patterns scan it, fetch everything else row by row, filter, and sort. With
`Extras`, further views are kept and read: copies through references, sparse and sharded views, an entry per element or
word, counters, embedded children, indexes of the engine. They have to be true for the answers to be right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from keyplan.engines import get_engine
from keyplan.model.entity import EXPIRES, Entity, Role
from keyplan.model.model import Model, path_of
from keyplan.model.pattern import RANGES, Compute, Condition, Literal, Order, Outer, Path, Pattern, Select, Term
from keyplan.model.write import Write
from keyplan.plan.dangling import absence
from keyplan.plan.design import Design, Objective
from keyplan.plan.steps import Attach, Drive, Extend, Fold, Node, Owned, Plan, Search, WritePlan
from keyplan.plan.view import COUNT, VERSION, Embed, Measure, Part, View


@dataclass(frozen=True)
class Extras:
    """What to keep besides the homes."""

    copies: bool = False
    """A view per entity with copies through its references; patterns start from it."""
    copied_keys: bool = False
    """Views whose keys begin with a copied value."""
    deep_keys: bool = False
    """Views whose keys begin with a value behind two references, or with one behind each of two."""
    moves: bool = False
    """Views by each mutable column, some of them sharded or cut."""
    elements: bool = False
    """An entry per element of a set, and per word of a text."""
    counters: bool = False
    """Counts and sums per reference, and by and of values behind references."""
    computed: bool = False
    """Views by computed fields."""
    embeds: bool = False
    """Children inside their parents' homes."""
    subsets: int = 0
    """Of children with a limit, so many inside their parents' homes, or as many as are asked for if that is more; all
    of them are in homes of their own."""
    indexes: bool = False
    """Views that the engine keeps: unique sets, and indexes with composed keys."""
    buckets: str = ""
    """A truncation: every moment has a view in buckets of it, with a directory of those that are not empty; patterns
    start from them."""
    packed: bool = False
    """Of these views, each partition is one value."""
    packed_homes: bool = False
    """The rows of every entity lie in two values: those of its two shards."""
    dangling: bool = False
    """Views of the rows that point at nothing, in which those that point at a new row are looked for."""
    computed_copies: bool = False
    """With `copies` and `copied_keys`: those of computed fields behind references as well; homes hold these."""


@dataclass
class Tree:
    """What is wanted of a row: columns, and trees behind its roles."""

    columns: set[str] = field(default_factory=set)
    roles: dict[str, Tree] = field(default_factory=dict)
    order: tuple[Order, ...] = ()
    limit: int | None = None

    def add(self, path: Path) -> None:
        here = self
        for role in path.roles:
            here = here.roles.setdefault(role, Tree())
        here.columns.add(path.column)


def naive_design(model: Model, extras: Extras | None = None, engine: str = "memory") -> Design:
    """A design for any model."""
    return _Naive(model, extras or Extras(), engine).design()


def packed_design(model: Model, extras: Extras, engine: str) -> Design:
    """A naive design whose views are of the kind that an engine can pack, so that it can be applied there."""
    about = get_engine(engine)
    kind = next(kind.name for kind in about.kinds.values() if kind.packs)
    found = naive_design(model, extras, engine)
    views = {name: replace(view, kind=kind) for name, view in found.views.items()}
    return replace(found, views=views, structures=about.pack(model, tuple(views.values()), {}))


class _Naive:
    def __init__(self, model: Model, extras: Extras, engine: str) -> None:
        self.model = model
        self.extras = extras
        self.engine = engine
        self.views: dict[str, View] = {}
        self.homes: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.copied: dict[str, str] = {}

    def design(self) -> Design:
        for entity in self.model.entities.values():
            self.home(entity)
        for entity in self.model.entities.values():
            self.guards(entity)
            self.further(entity)
        plans = {name: self.plan(pattern) for name, pattern in self.model.patterns.items()}
        return Design(
            self.model.name,
            self.engine,
            self.views,
            (),
            self.homes,
            {name: self.by_key(name) for name in self.model.entities},
            self.dependents(),
            plans,
            {name: self.write(write) for name, write in self.model.writes.items()},
            Objective("", 0.0, 0.0, 0.0, 0),
            dangling=self.dangling() if self.extras.dangling else {},
            refills=self.refills() if self.extras.subsets else {},
            groups=self.groups(),
        )

    # Views

    def keep(self, view: View) -> None:
        self.views[view.name] = view

    def home(self, entity: Entity) -> None:
        parts = [Part(column) for column in entity.key]
        embeds = ()
        if self.extras.embeds:
            embeds = tuple(
                Embed(role.name, role.entity, _parts(self.rest(role)), self.model.entities[role.entity].stored)
                for role in entity.roles.values()
                if role.many and role.entity != entity.name and self.may_embed(role)
            )
        if self.extras.subsets:
            embeds = (*embeds, *(self.subset(entity, role) for role in entity.roles.values() if self.has_subset(role)))
        holds = (*entity.stored, *self.counted(entity)) if self.extras.counters else entity.stored
        if self.extras.computed or self.extras.computed_copies:
            holds = (*holds, *self.computed_columns(entity))
        view = View(entity.name, entity.name, "table", tuple(parts[:1]), tuple(parts[1:]), holds, embeds)
        if self.extras.packed_homes:
            view = replace(view, partition=(Part("", ways=2),), sort=tuple(parts), packed=True)
        self.keep(view)
        self.homes[entity.name] = (entity.name, ())

    def has_subset(self, role: Role) -> bool:
        if not role.many or role.entity == self.parent(role):
            return False
        if set(self.model.entities[role.entity].key) <= set(role.columns):
            return False  # one child at most, which no design keeps a subset of
        return self.model.entities[role.entity].ttl is None and not (self.extras.embeds and self.may_embed(role))

    def subset(self, entity: Entity, role: Role) -> Embed:
        """The first children, in an order that some pattern asks for, or else the last ones by some column."""
        child = self.model.entities[role.entity]
        orders: dict[tuple[Part, ...], int] = {}
        for pattern in self.model.patterns.values():
            asked = pattern.select.roles.get(role.name) if pattern.entity == entity.name else None
            sort = None if asked is None or asked.limit is None else self.subset_order(role, asked.order)
            if asked is not None and asked.limit is not None and sort is not None:
                orders[sort] = max(orders.get(sort, 0), asked.limit)
        for column in child.columns.values():
            plain = column.computed is None and not column.hidden and not column.optional and column.type.is_ordered
            if not orders and plain and column.name not in (*child.key, *role.columns):
                sort = self.subset_order(role, (Order(Path((), column.name), True),))
                orders[sort or ()] = 0
        sort, limit = next(iter(orders.items())) if orders else (_parts(self.rest(role)), 0)
        copies = self.copies(child) if self.extras.copies else []
        holds = (*child.stored, *copies)
        return Embed(role.name, role.entity, sort, holds, limit=max(limit, self.extras.subsets))

    def subset_order(self, role: Role, order: tuple[Order, ...]) -> tuple[Part, ...] | None:
        """An order with its ties broken by the key; None if some row may have no place in it."""
        child = self.model.entities[role.entity]
        down = order[-1].descending if order else False
        named = {str(term.path) for term in order}
        parts = []
        for term in (*order, *(Order(Path((), column), down) for column in child.key if column not in named)):
            column = self.model.column(child.name, term.path)
            if term.path.roles or column.optional or column.computed is not None:
                return None
            if column.name not in role.columns:
                parts.append(Part(column.name, descending=term.descending))
        return tuple(parts)

    def subset_of(self, role: Role, order: tuple[Order, ...], limit: int | None) -> str:
        """The view whose subset has the first children in this order, if there is one."""
        view = self.views[self.homes[self.parent(role)][0]]
        found = (one for one in view.embeds if one.role == role.name and one.limit is not None)
        able = (one for one in found if limit is not None and one.limit is not None and limit <= one.limit)
        return view.name if any(one.sort == self.subset_order(role, order) for one in able) else ""

    def may_embed(self, role: Role) -> bool:
        return set(role.columns) <= set(self.model.entities[role.entity].key)

    def rest(self, role: Role) -> list[str]:
        return [column for column in self.model.entities[role.entity].key if column not in role.columns]

    def guards(self, entity: Entity) -> None:
        for number, columns in enumerate(entity.unique):
            holds = _held(entity, (*entity.key, *columns))
            name = f"{entity.name} unique {number}"
            if self.extras.indexes:
                self.keep(View(name, entity.name, "index", (), _parts(columns), holds, unique=True, base=entity.name))
            elif set(columns) != set(entity.key):
                holds = (*entity.stored, *self.copies(entity)) if self.extras.copies else holds
                self.keep(View(name, entity.name, "table", _parts(columns), (), holds, unique=True))

    def further(self, entity: Entity) -> None:
        copies = self.copies(entity)
        mutable = [
            column.name
            for column in entity.columns.values()
            if not column.immutable and not column.hidden and column.computed is None and column.type.is_ordered
        ]
        key = _parts(entity.key)
        if self.extras.copies:
            name = f"{entity.name} with copies"
            holds = (*entity.stored, *copies, *self.computed_behind(entity))
            self.keep(View(name, entity.name, "table", key[:1], key[1:], holds))
            self.copied[entity.name] = name
        if self.extras.copied_keys:
            plain = [path for path in copies if not path.endswith(EXPIRES)][:2]
            for path in (*plain, *self.computed_behind(entity)[:2]):
                if not self.model.column(entity.name, path_of(path, self.model, entity.name)).type.is_ordered:
                    continue
                behind = [one for one in copies if one.endswith(EXPIRES)]
                holds = (*_held(entity, entity.key), path, *behind)
                self.keep(View(f"{entity.name} by {path}", entity.name, "table", (Part(path),), key, holds))
        if self.extras.deep_keys:
            self.deeper_keys(entity, copies)
        if self.extras.moves:
            for number, column in enumerate(mutable):
                cut = "month" if entity.columns[column].type.kind in ("timestamp", "date") else None
                partition = (Part(column, cut), Part("", ways=2)) if number % 2 else (Part(column, cut),)
                sort = (Part(column, descending=True), *key)
                holds = _held(entity, (*entity.key, *mutable))
                self.keep(View(f"{entity.name} by {column}", entity.name, "table", partition, sort, holds))
            for column in entity.columns.values():
                if column.type.kind in ("enum", "bool") and column.computed is None:
                    first = column.type.values[0][0] if column.type.kind == "enum" else True
                    where = (Condition(Path((), column.name), "=", (Literal(first),)),)
                    holds = _held(entity, entity.stored)
                    name = f"{entity.name} where {column.name}"
                    self.keep(View(name, entity.name, "table", (), key, holds, where=where))
        if self.extras.elements:
            for column in entity.columns.values():
                cut = "each" if column.type.kind == "set" else "words" if column.type.kind == "text" else None
                if cut and not column.hidden and column.computed is None:
                    holds = _held(entity, (*entity.key, column.name))
                    name = f"{entity.name} {cut} {column.name}"
                    self.keep(View(name, entity.name, "table", (Part(column.name, cut),), key, holds))
        if self.extras.indexes and mutable:
            column = mutable[0]
            holds = _held(entity, entity.stored)
            name = f"{entity.name} index {column}"
            self.keep(View(name, entity.name, "composed", (Part(column),), key, holds, base=entity.name))
        for number, moment in enumerate(self.moments(entity)):
            bucket = Part(moment, self.extras.buckets)
            partition = (bucket, Part("", ways=3)) if number == 0 else (bucket,)
            sort = (Part(moment), *(part for part in key if part.path != moment))
            packed = self.extras.packed
            name = f"{entity.name} in {bucket}"
            self.keep(View(name, entity.name, "table", partition, sort, entity.stored, packed=packed))
            count = (Measure("count", None, COUNT),)
            self.keep(View(f"{entity.name} {bucket}s", entity.name, "table", (), (bucket,), (), measures=count))
        for column in self.computed_columns(entity) if self.extras.computed else ():
            name = f"{entity.name} by {column}"
            self.keep(View(name, entity.name, "table", (), (Part(column), *key), (*entity.stored, column)))
        if self.extras.counters and entity.ttl is None:
            for role in entity.roles.values():
                if not role.many:
                    self.keep(self.counter(entity, role))
            self.keep(self.counter(entity, None))
            for number, path in enumerate(self.counted(entity)):
                self.keep(self.counter_behind(entity, path, number))

    def deeper_keys(self, entity: Entity, copies: list[str]) -> None:
        """Views whose keys begin with what stands behind two references, one after the other or side by side."""
        key = _parts(entity.key)
        expires = [path for path in copies if path.endswith(EXPIRES)]
        ordered = [
            path
            for path in copies
            if path not in expires
            and self.model.column(entity.name, path_of(path, self.model, entity.name)).type.is_ordered
        ]
        behind = [path for path in ordered if path.count(".") > 1][:1]
        first = {path.partition(".")[0]: path for path in reversed(ordered) if path not in behind}
        beside = list(first.values())[:2]
        for some in (behind, beside if len(beside) > 1 else ()):
            if some:
                name, holds = " and ".join(some), (*_held(entity, entity.key), *some, *expires)
                parts = _parts(some)
                self.keep(View(f"{entity.name} by {name}", entity.name, "table", parts[:1], (*parts[1:], *key), holds))

    def moments(self, entity: Entity) -> list[str]:
        """The columns that rows are kept in buckets by."""
        kinds = ("timestamp", "date") if self.extras.buckets not in ("hour", "minute") else ("timestamp",)
        return [
            column.name
            for column in entity.columns.values()
            if self.extras.buckets and column.type.kind in kinds and not column.optional and not column.hidden
            if column.computed is None
        ]

    def copies(self, entity: Entity) -> list[str]:
        """Paths through one reference, and through two."""
        found: list[str] = []
        for role in entity.roles.values():
            if role.many:
                continue
            target = self.model.entities[role.entity]
            found += [f"{role.name}.{column}" for column in target.stored if column not in target.key]
            for further in target.roles.values():
                if not further.many:
                    last = self.model.entities[further.entity]
                    found += [
                        f"{role.name}.{further.name}.{column}" for column in last.stored if column not in last.key
                    ]
        own = entity.columns
        return [path for path in dict.fromkeys(found) if path not in own]

    def computed_behind(self, entity: Entity) -> list[str]:
        """Paths through one reference to computed fields."""
        if not self.extras.computed_copies:
            return []
        found = []
        for role in entity.roles.values():
            if not role.many:
                found += [f"{role.name}.{one}" for one in self.computed_columns(self.model.entities[role.entity])]
        return found

    def computed_columns(self, entity: Entity) -> list[str]:
        """Computed fields that a key may be made of: nothing that expires, nothing that drifts."""
        found = []
        for column in entity.columns.values():
            if column.computed is None or entity.ttl is not None:
                continue
            child = self.model.entities[entity.roles[column.computed.role].entity]
            drifts = column.computed.how == "sum" and column.type.kind == "float"
            if child.ttl is None and not drifts and column.type.is_ordered:
                found.append(column.name)
        return found

    def counted(self, entity: Entity) -> list[str]:
        """Paths through references by which rows may be counted: none behind rows that expire."""
        found = []
        for path in self.copies(entity) if entity.ttl is None else ():
            way = path_of(path, self.model, entity.name)
            passed = [self.model.entity_at(entity.name, way.roles[: depth + 1]) for depth in range(len(way.roles))]
            kind = self.model.column(entity.name, way).type.kind
            if kind in ("int", "string", "enum", "date", "timestamp", "decimal", "bool") and not any(
                self.model.entities[name].ttl is not None for name in passed
            ):
                found.append(path)
        return found[:4]

    def counter_behind(self, entity: Entity, path: str, number: int) -> View:
        """A counter by a value behind references, with missing apart or left out; sums of such values as well."""
        type = self.model.column(entity.name, path_of(path, self.model, entity.name)).type
        cut = "month" if type.kind in ("timestamp", "date") else None
        measures = [Measure("count", None, "$count")]
        for column in entity.columns.values():
            if column.computed is None and column.type.kind in ("int", "decimal"):
                measures.append(Measure("sum", Term(Path((), column.name)), f"sum({column.name})"))
        if type.kind in ("int", "decimal"):
            measures.append(Measure("sum", Term(path_of(path, self.model, entity.name)), f"sum({path})"))
        part = Part(path, cut, or_missing=number % 2 == 0)
        return View(f"{entity.name} counted by {path}", entity.name, "table", (part,), (), (), measures=tuple(measures))

    def counter(self, entity: Entity, role: Role | None) -> View:
        measures = [Measure("count", None, "$count")]
        for column in entity.columns.values():
            if column.computed is None and column.type.kind in ("int", "decimal"):
                term = Term(Path((), column.name))
                measures.append(Measure("sum", term, f"sum({column.name})"))
                if role is not None:
                    measures.append(Measure("max", term, f"max({column.name})"))
        if any(measure.how == "max" for measure in measures):
            measures.append(Measure("count", None, VERSION))
        parts = _parts(role.columns) if role is not None else ()
        name = f"{entity.name} totals by {role.name if role is not None else 'nothing'}"
        return View(name, entity.name, "table", parts, (), (), measures=tuple(measures))

    # Plans

    def bucketed(self, entity: Entity, filter: tuple[Condition, ...], order: tuple[Order, ...] = ()) -> Node | None:
        """Rows bucket by bucket: by a directory, or by a range that says which buckets there are."""
        moments = self.moments(entity)
        wanted = str(order[0].path) if order else ""
        bounded = [one.path.column for one in filter if one.op == "between" and not one.path.roles]
        column = next((one for one in (wanted, *bounded, *moments) if one in moments), None)
        if column is None:
            return None
        cut = self.extras.buckets
        by_time = bool(wanted == column)
        ranges = tuple(one for one in filter if str(one.path) == column and one.op in RANGES)
        down = order[0].descending if order else False
        native = (Order(Path((), column), down), *(Order(Path((), c), down) for c in entity.key if c != column))
        bounded_here = any(one.op == "between" for one in ranges) and cut == "year"
        rows = Search(
            f"{entity.name} in {cut}({column})",
            given=ranges,
            filter=tuple(one for one in filter if one not in ranges),
            takes=entity.stored,
            descending=down,
            order=native if by_time else (),
        )
        if bounded_here:
            return rows
        this = Condition(Path((), column), "=", (Outer(f"{cut}({column})"),), cut)
        directory = Search(
            f"{entity.name} {cut}({column})s", given=ranges, takes=(f"{cut}({column})", COUNT), descending=down
        )
        return Drive(directory, replace(rows, given=(this, *ranges)), by_time)

    def search(self, entity: str, filter: Iterable[Condition], *, copies: bool = False) -> Node:
        about = self.model.entities[entity]
        filter = tuple(filter)
        if not copies and (found := self.bucketed(about, filter)) is not None:
            return found
        name = self.homes[entity][0]
        takes: tuple[str, ...] = about.stored
        if copies and entity in self.copied:
            name = self.copied[entity]
            takes = self.views[name].holds
        return Search(name, filter=filter, takes=takes)

    def by_key(self, entity: str) -> Search:
        about = self.model.entities[entity]
        given = tuple(Condition(Path((), column), "=", (Outer(column),)) for column in about.key)
        return Search(self.homes[entity][0], given=given, takes=about.stored)

    def dependents(self) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for entity in self.model.entities.values():
            for role in entity.roles.values():
                if not role.many:
                    key = self.model.entities[role.entity].key
                    pairs = zip(role.columns, key, strict=True)
                    links = [Condition(Path((), here), "=", (Outer(there),)) for here, there in pairs]
                    found[f"{entity.name}.{role.name}"] = self.search(entity.name, links)
        return found

    def refills(self) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for entity in self.model.entities.values():
            for role in entity.roles.values():
                if self.has_subset(role):
                    pairs = zip(role.columns, entity.key, strict=True)
                    links = [Condition(Path((), there), "=", (Outer(here),)) for there, here in pairs]
                    found[f"{entity.name}.{role.name}"] = self.search(role.entity, links)
        return found

    def groups(self) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for name, view in self.views.items():
            if view.recomputed:
                named = [
                    Condition(Path((), part.path), "=", (Outer(str(part)),), part.cut)
                    for part in view.parts
                    if part.ways == 1
                ]
                found[name] = self.search(view.entity, named)
        return found

    def dangling(self) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for entity in self.model.entities.values():
            for role in entity.roles.values():
                where = None if role.many else absence(self.model, entity.name, role.name)
                if where is None:
                    continue
                name = f"{entity.name} whose {role.name} is missing"
                rest = [column for column in entity.key if column not in role.columns]
                holds = _held(entity, (*role.columns, *entity.key))
                parts = (_parts(role.columns), _parts(rest))
                self.keep(View(name, entity.name, "table", *parts, holds, where=(where,)))
                key = self.model.entities[role.entity].key
                pairs = zip(role.columns, key, strict=True)
                links = tuple(Condition(Path((), here), "=", (Outer(there),)) for here, there in pairs)
                search = Search(name, given=links, takes=holds)
                found[f"{entity.name}.{role.name}"] = Extend(search, (Attach("", self.by_key(entity.name)),))
        return found

    def plan(self, pattern: Pattern) -> Plan:
        if pattern.kind == "aggregate":
            tree = Tree()
            for group in pattern.group:
                tree.add(group.path)
            for compute in pattern.compute:
                for path in _term_paths(compute.term):
                    tree.add(path)
            rows = self.find(pattern.entity, pattern.where, tree)
            fold = Fold(rows, pattern.group, pattern.compute)
            return Plan(self.owned(pattern, fold) or fold, pattern.entity)
        tree = self.selected(pattern.select)
        for term in pattern.order:
            tree.add(term.path)
        down = pattern.order[-1].descending if pattern.order else False
        named = {str(term.path) for term in pattern.order}
        key = self.model.entities[pattern.entity].key
        order = (*pattern.order, *(Order(Path((), column), down) for column in key if column not in named))
        about = self.model.entities[pattern.entity]
        by_time = len(pattern.order) == 1 and str(pattern.order[0].path) in self.moments(about)
        node = self.find(pattern.entity, pattern.where, tree, pattern.order if by_time else ())
        return Plan(node, pattern.entity, order, by_time and _is_ordered(node))

    def owned(self, pattern: Pattern, instead: Node) -> Node | None:
        """An aggregate by a reference, of which the home that it leads to holds the value."""
        where = {c.path.column: c for c in pattern.where if c.op == "=" and not c.path.roles and c.cut is None}
        if not self.extras.computed or self.extras.packed_homes or pattern.group or len(where) < len(pattern.where):
            return None
        for role in self.model.entities[pattern.entity].roles.values():
            if role.many or set(role.columns) != set(where):
                continue
            owner = self.model.entities[role.entity]
            held = {owner.columns[name]: name for name in self.computed_columns(owner)}
            columns = []
            for compute in pattern.compute:
                path = compute.term.path if compute.term is not None else None
                if (path is not None and path.roles) or (compute.term is not None and path is None):
                    break
                for column, name in held.items():
                    made = column.computed
                    assert made is not None
                    many = owner.roles[made.role]
                    here = (many.entity, many.field) == (pattern.entity, role.field)
                    if here and (made.how, made.column) == (compute.how, path.column if path else None):
                        columns.append((compute.name, name))
                        break
            if len(columns) == len(pattern.compute):
                pairs = zip(owner.key, role.columns, strict=True)
                key = tuple(Condition(Path((), column), "=", where[here].operands) for column, here in pairs)
                takes = (*owner.key, *(name for _, name in columns))
                return Owned(Search(self.homes[owner.name][0], given=key, takes=takes), tuple(columns), instead)
        return None

    def selected(self, select: Select) -> Tree:
        roles = {name: self.selected(inner) for name, inner in select.roles.items()}
        return Tree(set(select.columns), roles, select.order, select.limit)

    def find(self, entity: str, where: Iterable[Condition], tree: Tree, order: tuple[Order, ...] = ()) -> Node:
        """Rows that meet conditions, with everything in the tree."""
        about = self.model.entities[entity]
        own, behind = [], []
        wanted = Tree()
        for condition in where:
            paths = (condition.path, *condition.also)
            if all(not path.roles and about.columns[path.column].computed is None for path in paths):
                own.append(condition)
                continue
            behind.append(condition)
            for path in paths:
                wanted.add(path)
        buckets = self.bucketed(about, tuple(own), order)
        node: Node = buckets or self.search(entity, own, copies=True)
        copied = buckets is None and entity in self.copied
        if behind:
            node = Extend(node, self.attached(entity, wanted, copied, tested=True), tuple(behind))
        adds = self.attached(entity, tree, copied)
        return Extend(node, adds) if adds else node

    def attached(self, entity: str, tree: Tree, copied: bool = False, tested: bool = False) -> tuple[Attach, ...]:
        """What has to be added to rows of an entity, whose own columns are there; `copied`: with copies; `tested`: for
        conditions, which nothing behind a row that is not there fulfils."""
        about = self.model.entities[entity]
        adds = [
            Attach("", self.computed(about, column, about.key))
            for column in sorted(tree.columns)
            if about.columns[column].computed is not None
        ]
        for name, inner in tree.roles.items():
            role = about.roles[name]
            target = self.model.entities[role.entity]
            if role.many:
                adds.append(self.attached_children(role, inner, about.key))
                continue
            for column in sorted(inner.columns):
                held = copied and f"{name}.{column}" in self.views[self.copied[entity]].holds
                if target.columns[column].computed is not None and not held:
                    adds.append(Attach(name, self.computed(target, column, role.columns)))
            for further, deeper in inner.roles.items():
                # Shown are those of the key, whether there is such a row or not.
                if target.roles[further].many and not tested:
                    adds.append(self.attached_children(target.roles[further], deeper, role.columns, f"{name}."))
            if copied and self.is_copied(entity, name, inner):
                continue
            pairs = zip(target.key, role.columns, strict=True)
            links = [Condition(Path((), there), "=", (Outer(here),)) for there, here in pairs]
            node: Node = Search(self.homes[target.name][0], given=tuple(links), takes=target.stored)
            below = self.attached(target.name, _by_the_row(target, inner, children=tested), tested=tested)
            adds.append(Attach(name, Extend(node, below) if below else node))
        return tuple(adds)

    def attached_children(self, role: Role, inner: Tree, key: Sequence[str], prefix: str = "") -> Attach:
        """The rows on the many side of a role, given what holds the parent's key."""
        target = self.model.entities[role.entity]
        pairs = zip(role.columns, key, strict=True)
        links = [Condition(Path((), there), "=", (Outer(here),)) for there, here in pairs]
        child: Node = self.children(role, links)
        held = self.subset_of(role, inner.order, inner.limit)
        if held:
            child = Search(held, (role.name,), tuple(links), takes=target.stored)
        for term in inner.order:
            inner.add(term.path)
        below = self.attached(role.entity, inner)
        if below:
            child = Extend(child, below)
        order: tuple[Order, ...] = ()
        if inner.order:
            last = inner.order[-1].descending
            named = {str(term.path) for term in inner.order}
            ties = (Order(Path((), column), last) for column in target.key if column not in named)
            order = (*inner.order, *ties)
        return Attach(prefix + role.name, child, True, order=order, limit=inner.limit)

    def children(self, role: Role, links: list[Condition]) -> Node:
        if self.extras.embeds and self.may_embed(role) and role.entity != self.parent(role):
            view = self.homes[self.parent(role)][0]
            if any(one.role == role.name and one.limit is None for one in self.views[view].embeds):
                takes = self.model.entities[role.entity].stored
                return Search(view, (role.name,), tuple(links), takes=takes)
        return self.search(role.entity, links)

    def parent(self, role: Role) -> str:
        target = self.model.entities[role.entity].fields[role.field].target
        assert target is not None
        return target

    def is_copied(self, entity: str, role: str, tree: Tree) -> bool:
        """Whether everything behind a reference is in the view with copies already."""
        held = self.views[self.copied[entity]].holds
        target = self.model.entities[self.model.entities[entity].roles[role].entity]
        plain = {column for column in tree.columns if target.columns[column].computed is None}
        known = all(f"{role}.{column}" in held or column in target.key for column in plain)
        return known and not tree.roles

    def computed(self, entity: Entity, column: str, key: tuple[str, ...]) -> Node:
        """The aggregate that a computed field stands for; `key` is where the row has the entity's key."""
        about = entity.columns[column].computed
        assert about is not None
        role = entity.roles[about.role]
        pairs = zip(role.columns, key, strict=True)
        links = [Condition(Path((), there), "=", (Outer(here),)) for there, here in pairs]
        term = Term(Path((), about.column)) if about.column is not None else None
        compute = Compute(column, about.how, term, entity.columns[column].type)
        child = self.model.entities[role.entity]
        back = child.roles[role.field]
        counter = f"{child.name} totals by {back.name}"
        hows = ("count", "sum", "max")
        if self.extras.counters and counter in self.views and about.how in hows:
            view = self.views[counter]
            if any((one.how, one.term) == (about.how, term) for one in view.measures):
                takes = (*role.columns, *(measure.name for measure in view.measures))
                return Fold(Search(counter, given=tuple(links), takes=takes), (), (compute,), True)
        return Fold(self.search(role.entity, links), (), (compute,))

    def write(self, write: Write) -> WritePlan:
        if write.kind not in ("update", "delete"):
            return WritePlan()
        return WritePlan(find=self.find(write.entity, write.where, Tree()))


def _is_ordered(node: Node) -> bool:
    if isinstance(node, Extend):
        return _is_ordered(node.rows)
    return bool(node.order) if isinstance(node, Search) else isinstance(node, Drive) and node.ordered


def _by_the_row(entity: Entity, tree: Tree, children: bool) -> Tree:
    """What depends on the row itself, and not on its key alone; `children`: those of rows that are there."""
    plain = {column for column in tree.columns if entity.columns[column].computed is None}
    roles = {name: one for name, one in tree.roles.items() if children or not entity.roles[name].many}
    return replace(tree, columns=plain, roles=roles)


def _parts(columns: Iterable[str]) -> tuple[Part, ...]:
    return tuple(Part(column) for column in columns)


def _held(entity: Entity, columns: Iterable[str]) -> tuple[str, ...]:
    """Columns in the entity's order, with the moment of expiry if there is one."""
    wanted = {*columns, *([EXPIRES] if EXPIRES in entity.columns else [])}
    return tuple(column for column in entity.columns if column in wanted)


def _term_paths(term: Term | None) -> list[Path]:
    if term is None:
        return []
    if term.path is not None:
        return [term.path]
    return [*_term_paths(term.left), *_term_paths(term.right)]


EVERYTHING: Mapping[str, Extras] = {
    "homes": Extras(),
    "copies": Extras(copies=True, copied_keys=True),
    "dangling": Extras(copies=True, copied_keys=True, dangling=True),
    "moves": Extras(moves=True, elements=True),
    "counters": Extras(counters=True),
    "computed": Extras(computed=True),
    "computed and copies": Extras(copies=True, counters=True, computed=True),
    "computed behind references": Extras(copies=True, copied_keys=True, computed_copies=True),
    "computed everywhere": Extras(
        copies=True, copied_keys=True, counters=True, computed=True, computed_copies=True, dangling=True
    ),
    "embeds": Extras(embeds=True),
    "subsets": Extras(subsets=1),
    "subsets with copies": Extras(copies=True, computed=True, subsets=2),
    "indexes": Extras(indexes=True),
    "all": Extras(True, True, True, True, True, True, True, False, dangling=True),
    "years": Extras(buckets="year"),
    "days": Extras(buckets="day"),
    "hours": Extras(moves=True, buckets="hour"),
    "packed": Extras(copies=True, buckets="month", packed=True),
    "packed homes": Extras(moves=True, counters=True, computed=True, packed_homes=True),
}
