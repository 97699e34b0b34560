"""The model: entities, patterns, writes and transactions, and the way around between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from keyplan.errors import KeyplanError, nearest, quoted
from keyplan.model.entity import EXPIRES, Column, Computed, Entity, Field, Role
from keyplan.model.pattern import Path, Pattern
from keyplan.model.types import Type
from keyplan.model.write import Transaction, Write

COUNT_TYPE = Type("int")
TIMESTAMP = Type("timestamp")


MOST_NAMED = 12
"""So many names are listed where none of them is near."""


MOST_ROLES = 16
"""So many roles a path goes over at most: each may be a row to be read, and every pass of a design walks along them."""


class UnknownPathError(KeyplanError):
    """A path that leads nowhere; the message says where it breaks."""


@dataclass(frozen=True)
class Model:
    """A whole model. Build it with `Model.build`, which works out columns, keys and roles."""

    name: str
    entities: Mapping[str, Entity]
    patterns: Mapping[str, Pattern] = field(default_factory=dict)
    writes: Mapping[str, Write] = field(default_factory=dict)
    transactions: Mapping[str, Transaction] = field(default_factory=dict)
    targets: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Per engine: what only that engine needs, as nested plain values (texts as written)."""
    target_lines: Mapping[str, int] = field(default_factory=dict)
    """Where in its file each of these stands, by paths such as `targets.engine.option`."""
    warnings: tuple[str, ...] = ()
    file: str = ""

    def __hash__(self) -> int:
        return id(self)

    @staticmethod
    def derive(entities: Mapping[str, Entity]) -> dict[str, Entity]:
        """Fills in the columns, key and roles of entities that reference each other.

        The caller has checked that every target and key part exists and that keys are not cyclic.
        """
        return _Derivation(entities).run()

    def column(self, entity: str, path: Path) -> Column:
        """The column at the end of a resolved path."""
        return self.entities[self.entity_at(entity, path.roles)].columns[path.column]

    def entity_at(self, entity: str, roles: tuple[str, ...]) -> str:
        """The name of the entity that a chain of roles leads to."""
        for role in roles:
            entity = self.entities[entity].roles[role].entity
        return entity

    def is_many(self, entity: str, roles: tuple[str, ...]) -> bool:
        """Whether a chain of roles passes a to-many role."""
        for name in roles:
            role = self.entities[entity].roles[name]
            if role.many:
                return True
            entity = role.entity
        return False

    def resolve(self, entity: str, text: str) -> Path:
        """The one form of a path: `user.user_id` on Order is the column `user`; raises UnknownPathError.

        A path must end at a column; a reference with a composite key has to be spelt part by part.
        """
        here = self.entities[entity]
        names = text.split(".")
        roles: list[str] = []
        while True:
            rest = ".".join(names)
            if rest in here.columns and not here.columns[rest].hidden:
                return _shorten(self, entity, tuple(roles), rest)
            name = names[0]
            role = here.roles.get(name)
            if role is None:
                if name in here.columns and not here.columns[name].hidden:
                    what = f"'{name}' is {here.columns[name].type}, which leads no further"
                    raise UnknownPathError(f"{what}; end the path there, or name a reference")
                shown = [column.name for column in here.columns.values() if not column.hidden]
                known = list(dict.fromkeys([*shown, *here.roles]))  # a reference is a column and a role
                hint = nearest(name, known) or f"; it has {', '.join(known[:MOST_NAMED])}"
                raise UnknownPathError(f"'{here.name}' has no '{name}'{hint}")
            if len(names) == 1:
                if role.many:
                    raise UnknownPathError(f"'{text}' leads to rows of '{role.entity}'; name one of their fields")
                raise UnknownPathError(f"'{text}' is a composite reference; name its parts: {', '.join(role.columns)}")
            if len(roles) == MOST_ROLES:
                what = f"{quoted(text)} goes over more than {MOST_ROLES} roles"
                raise UnknownPathError(f"{what}; keep what it leads to closer by, as a field with 'from'")
            roles.append(name)
            here = self.entities[role.entity]
            names = names[1:]

    @cached_property
    def calls(self) -> dict[str, Pattern | Write | Transaction]:
        """Everything that a store has a method for."""
        return {**self.patterns, **self.writes, **self.transactions}

    @cached_property
    def known_paths(self) -> dict[tuple[str, str], Path]:
        """What `path_of` has worked out so far."""
        return {}

    @cached_property
    def known_wants(self) -> dict[tuple[str, frozenset[str]], tuple[str, ...]]:
        """What `wanted` (of needs) has worked out so far."""
        return {}

    def inverse(self, entity: str, role: str) -> Role | None:
        """The to-many role that undoes a to-one role, if the model names it."""
        target = self.entities[entity].roles[role]
        for back in self.entities[target.entity].roles.values():
            if back.many and back.entity == entity and back.field == role:
                return back
        return None


def path_of(text: str, model: Model, entity: str) -> Path:
    """The path that a canonical dotted text stands for."""
    found = model.known_paths.get((entity, text))
    if found is None:
        found = model.known_paths[(entity, text)] = _path_of(text, model, entity)
    return found


def _path_of(text: str, model: Model, entity: str) -> Path:
    here = model.entities[entity]
    if text in here.columns:
        return Path((), text)
    for role in here.roles.values():
        if text.startswith(role.name + "."):
            inner = _path_of(text[len(role.name) + 1 :], model, role.entity)
            return Path((role.name, *inner.roles), inner.column)
    raise KeyError(text)


def _shorten(model: Model, entity: str, roles: tuple[str, ...], column: str) -> Path:
    """Turns a key part at the end of a to-one role into the reference's own column, as far as it goes."""
    while roles:
        before = model.entity_at(entity, roles[:-1])
        role = model.entities[before].roles[roles[-1]]
        target_key = model.entities[role.entity].key
        if role.many or column not in target_key:
            break
        column = role.columns[target_key.index(column)]
        roles = roles[:-1]
    return Path(roles, column)


class _Derivation:
    """Works out columns and keys, each entity's key before the columns of those that reference it."""

    def __init__(self, entities: Mapping[str, Entity]) -> None:
        self.entities = entities
        self.columns: dict[str, dict[str, Column]] = {}
        self.keys: dict[str, tuple[str, ...]] = {}
        self.pointing: dict[str, list[tuple[Entity, Field]]] = {}
        """Per target, the references with a role of their own on it."""
        for entity in entities.values():
            for item in entity.fields.values():
                if item.target is not None and item.role is not None:
                    self.pointing.setdefault(item.target, []).append((entity, item))

    def run(self) -> dict[str, Entity]:
        done: dict[str, Entity] = {}
        for name, entity in self.entities.items():
            columns = {}
            for item in entity.fields.values():
                if item.computed is None:
                    for column in self.columns_of(item):
                        columns[column.name] = column
            self.columns[name] = columns
        for name, entity in self.entities.items():
            columns = self.columns[name]
            for item in entity.fields.values():
                if item.computed is not None:
                    computed = self.computed_column(entity, item, item.computed)
                    columns[item.name] = computed
            if entity.ttl is not None:
                columns[EXPIRES] = Column(EXPIRES, TIMESTAMP, EXPIRES, True, False, hidden=True)
            key = self.key_of(name)
            for part in key:
                columns[part] = replace(columns[part], immutable=True, optional=False)
            unique = tuple(dict.fromkeys((*(self.unique_columns(entity)), *entity.unique)))
            done[name] = replace(entity, key=key, columns=columns, unique=unique)
        for name, entity in done.items():
            done[name] = replace(entity, roles=self.roles_of(entity))
        return done

    def key_of(self, name: str) -> tuple[str, ...]:
        if name not in self.keys:
            entity = self.entities[name]
            parts: list[str] = []
            for part in entity.key_fields:
                parts.extend(self.key_columns(entity, part))
            self.keys[name] = tuple(dict.fromkeys(parts))
        return self.keys[name]

    def key_columns(self, entity: Entity, part: str) -> list[str]:
        """The columns of one written key part; `customer.district` takes those of the reference that begin so."""
        head, _, rest = part.partition(".")
        names = [column.name for column in self.columns_of(entity.fields[head])]
        if not rest:
            return names
        return [name for name in names if name == part or name.startswith(part + ".")]

    def columns_of(self, item: Field) -> list[Column]:
        optional = item.optional is not None
        if item.target is None:
            assert item.type is not None
            return [Column(item.name, item.type, item.name, optional and not item.type.is_collection, item.immutable)]
        target = self.entities[item.target]
        key = self.key_of(item.target)
        result = []
        for part in key:
            name = item.name if len(key) == 1 else f"{item.name}.{part}"
            result.append(Column(name, self.type_of(target, part), item.name, optional, item.immutable))
        return result

    def type_of(self, entity: Entity, column: str) -> Type:
        head, _, rest = column.partition(".")
        item = entity.fields[head]
        if item.target is None:
            assert item.type is not None
            return item.type
        key = self.key_of(item.target)
        return self.type_of(self.entities[item.target], rest or key[0])

    def unique_columns(self, entity: Entity) -> list[tuple[str, ...]]:
        found = []
        for item in entity.fields.values():
            if item.unique:
                found.append(tuple(column.name for column in self.columns_of(item)))
        return found

    def computed_column(self, entity: Entity, item: Field, computed: Computed) -> Column:
        kind = COUNT_TYPE
        if computed.column is not None:
            for child, other in self.pointing.get(entity.name, ()):
                if other.role == computed.role:
                    kind = self.type_of(child, computed.column)
        return Column(item.name, kind, item.name, computed.how in ("min", "max"), True, computed)

    def roles_of(self, entity: Entity) -> dict[str, Role]:
        roles: dict[str, Role] = {}
        for item in entity.fields.values():
            if item.target is not None:
                columns = tuple(column.name for column in self.columns_of(item))
                roles[item.name] = Role(item.name, item.target, False, columns, field=item.name)
        for child, item in self.pointing.get(entity.name, ()):
            assert item.role is not None
            columns = tuple(column.name for column in self.columns_of(item))
            roles[item.role] = Role(item.role, child.name, True, columns, item.most, item.name)
        return roles
