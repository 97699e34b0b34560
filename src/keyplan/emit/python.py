"""Types for Python: one protocol per store, sync and async, so that editors and type checkers know every call.

    shop = cast(Shop, keyplan.open("shop.yaml", url))
    shop.orders_of_user(user_id=…).rows[0]["total"]       # Decimal

The text is made from the model alone; it is the same for every engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keyplan.emit.python_head import COMMON, HEAD, IMPORTED
from keyplan.emit.python_names import apart, class_title
from keyplan.model.arguments import Binder
from keyplan.model.entity import Column, Entity
from keyplan.model.model import Model
from keyplan.model.pattern import Pattern, Select
from keyplan.model.types import Type
from keyplan.model.write import Children, Repeat, Transaction, Write
from keyplan.plan.design import Design

_NAMES = {
    "string": "str",
    "text": "str",
    "bytes": "bytes",
    "json": "Any",
    "int": "int",
    "decimal": "Decimal",
    "float": "float",
    "bool": "bool",
    "date": "date",
    "timestamp": "datetime",
    "uuid": "UUID",
    "ulid": "str",
}

_DEFINED = {"Row", "Consistency", "Page", "Executed", "ViewReport", "Verification"}
"""Names that the text has already."""


def write(model: Model, design: Design) -> Mapping[str, str]:
    """The module `<model>_types.py`."""
    return {f"{_snake(model.name)}_types.py": _Writer(model).text()}


class _Writer:
    """Collects the classes that calls need, then the protocols with the calls."""

    def __init__(self, model: Model) -> None:
        self.model = model
        taken = {name for names in IMPORTED.values() for name in names} | _DEFINED
        self.name = class_title(model.name, taken | {name.removeprefix("Async") for name in taken})
        self.taken = {*taken, self.name, f"Async{self.name}"}
        self.classes: list[str] = []
        self.parts: dict[str, str] = {}
        """The classes of the arguments of writes that are parts of transactions."""
        self.given: dict[str, list[str]] = {}
        """The arguments of creates, whose children have classes."""
        self.answers: dict[str, str] = {}
        """What writes return."""
        self.keys: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
        """The classes of references of several parts that are given as mappings."""

    def text(self) -> str:
        stores = {is_async: text.splitlines() for is_async, text in COMMON.items()}
        for name, call in self.model.calls.items():
            arguments = self.arguments(call)
            if isinstance(call, Pattern):
                arguments = [*arguments, "consistency: Consistency | None = None"]
            answer = self.answer(name, call)
            for is_async, lines in stores.items():
                if isinstance(call, Pattern) and call.kind == "find" and not call.one:
                    lines += self.iterable(call, arguments, answer, is_async)
                else:
                    lines += self.method(name, arguments, answer, is_async)
        protocols = "\n\n\n".join(
            f'class {prefix}{self.name}(Protocol):\n    """The store of the model \'{self.model.name}\'."""\n\n'
            + "\n".join(f"    {line}" for line in stores[bool(prefix)])
            for prefix in ("", "Async")
        )
        protocols, known_as = apart(self.model.calls, self.taken, protocols)
        imports = "\n".join(
            f"from {module} import {', '.join(names)}" for module, names in IMPORTED.items() if module != "keyplan"
        )
        head = HEAD.format(model=self.model.name, name=self.name, imports=imports)
        parts = [*self.classes, *(["\n".join(known_as)] if known_as else []), protocols]
        return "\n\n".join([head, *(f"{each}\n" for each in parts)])

    def method(self, name: str, arguments: Sequence[str], answer: str, is_async: bool) -> list[str]:
        """A call; asked to explain itself, it returns what it did besides."""
        word = "async def" if is_async else "def"
        plain = _signature([*arguments, "explain: Literal[False] = False"])
        explained = _signature([*arguments, "explain: Literal[True]"])
        return [
            *("@overload", f"{word} {name}({plain}) -> {answer}: ..."),
            *("@overload", f"{word} {name}({explained}) -> tuple[{answer}, Executed]: ..."),
        ]

    def iterable(self, call: Pattern, arguments: Sequence[str], answer: str, is_async: bool) -> list[str]:
        """A call with many rows has `.all` besides, so it is an object with two methods."""
        row = answer.partition("[")[2][:-1]
        title = self.title(f"{'async_' if is_async else ''}{call.name}_call")
        given = [*arguments, *(["cursor: str | None = None"] if call.limit is None else [])]
        iterator = "AsyncIterator" if is_async else "Iterator"
        lines = self.method("__call__", given, answer, is_async)
        lines.append(f"def all({_signature(given)}) -> {iterator}[{row}]: ...")
        body = "\n".join(f"    {line}" for line in lines)
        self.classes.append(f"class {title}(Protocol):\n{body}")
        return ["@property", f"def {call.name}(self) -> {title}: ..."]

    def title(self, text: str) -> str:
        """A class name that nothing else has."""
        name = class_title(text, self.taken)
        self.taken.add(name)
        return name

    def arguments(self, call: Pattern | Write | Transaction) -> list[str]:
        if isinstance(call, Transaction):
            return [self.part_argument(part) for part in call.parts]
        if isinstance(call, Write) and call.kind in ("create", "upsert"):
            if call.name not in self.given:
                self.given[call.name] = self.row_arguments(call)
            return self.given[call.name]
        binder = Binder(self.model, call)
        entity = self.model.entities[call.entity]
        given: list[str] = []
        for name in binder.names:
            columns = binder.groups.get(name, (name,))
            texts = [_given(call.params[column], any_order=column in binder.lists) for column in columns]
            if columns != (name,):
                parts = {column[len(name) + 1 :]: text for column, text in zip(columns, texts, strict=True)}
                texts = [self.reference(entity.fields[name].target or name, parts)]
            given.append(f"{name}: {texts[0]}{' | None' if binder.nullable.issuperset(columns) else ''}")
        return given

    def reference(self, target: str, parts: Mapping[str, str]) -> str:
        """What may be given for a reference of several parts: a tuple, flat or nested, or a mapping by part."""
        flat = _tuple(list(parts.values()))
        heads: dict[str, dict[str, str]] = {}
        for part, text in parts.items():
            head, _, rest = part.partition(".")
            heads.setdefault(head, {})[rest] = text
        fields = self.model.entities[target].fields
        inner = {
            head: below[""] if "" in below else self.reference(fields[head].target or head, below)
            for head, below in heads.items()
        }
        known = (target, tuple(inner.items()))
        if known not in self.keys:
            self.keys[known] = self.typed_dict(f"{target}_key", inner)
        nested = _tuple(list(inner.values()))
        forms = [flat, *([nested] if len(parts) > len(inner) > 1 else []), self.keys[known]]
        return " | ".join(forms)

    def part_argument(self, part: Repeat) -> str:
        """A part of a transaction: the arguments of its write, or a list of them."""
        if part.write not in self.parts:
            fields: dict[str, str] = {}
            for argument in self.arguments(self.model.writes[part.write]):
                name, _, text = argument.partition(": ")
                fields[name] = f"NotRequired[{text.removesuffix(' = ...')}]" if text.endswith(" = ...") else text
            self.parts[part.write] = self.typed_dict(f"{part.write}_arguments", fields)
        title = self.parts[part.write]
        return f"{part.write}: Sequence[{title}] = ()" if part.many else f"{part.write}: {title}"

    def row_arguments(self, call: Write) -> list[str]:
        required: list[str] = []
        optional: list[str] = []
        for name, (text, needed) in self.input_fields(call.entity, call.children, None, call.name).items():
            (required if needed else optional).append(f"{name}: {text}" if needed else f"{name}: {text} = ...")
        return [*required, *optional]

    def input_fields(
        self, name: str, children: Children, parent: str | None, place: str
    ) -> dict[str, tuple[str, bool]]:
        """The fields of a row to be created: their types, and whether they have to be given."""
        entity = self.model.entities[name]
        fields: dict[str, tuple[str, bool]] = {}
        for field in entity.fields.values():
            if field.computed is not None or field.name == parent:
                continue
            columns = _columns(entity, field.name)
            generated = field.name in entity.key and columns[0].type.kind in ("uuid", "ulid") and field.target is None
            filled = field.now or field.source is not None or field.default is not None or columns[0].type.is_collection
            if len(columns) == 1:
                text = _given(columns[0].type)
            else:
                parts = {column.name[len(field.name) + 1 :]: _given(column.type) for column in columns}
                text = self.reference(field.target or field.name, parts)
            is_optional = field.optional is not None
            fields[field.name] = (f"{text} | None" if is_optional else text, not (is_optional or filled or generated))
        for role_name, below in children.items():
            role = entity.roles[role_name]
            inner = self.input_fields(role.entity, below, role.field, f"{place}_{role_name}")
            title = self.typed_dict(
                f"{place}_{role_name}",
                {key: text if needed else f"NotRequired[{text}]" for key, (text, needed) in inner.items()},
            )
            fields[role_name] = (f"{title} | None" if role.most == 1 else f"Sequence[{title}]", False)
        return fields

    def answer(self, name: str, call: Pattern | Write | Transaction) -> str:
        if isinstance(call, Transaction):
            done: dict[str, str] = {}
            for part in call.parts:
                answer = self.answer(part.write, self.model.writes[part.write])
                done[part.write] = f"list[{answer}]" if part.many else answer
            return self.typed_dict(f"{name}_done", done)
        if isinstance(call, Write):
            if name not in self.answers:
                self.answers[name] = self.write_answer(name, call)
            return self.answers[name]
        if call.kind == "rank":
            return "int | None"
        if call.kind == "aggregate":
            return self.aggregate_answer(name, call)
        row = self.row(name, call.entity, call.select)
        if call.one:
            return f"{row} | None"
        return f"Page[{row}]" if call.limit is None else f"list[{row}]"

    def aggregate_answer(self, name: str, call: Pattern) -> str:
        computed = {each.name: self.computed(each.how, each.type) for each in call.compute}
        if call.scalar:
            return next(iter(computed.values()))
        groups = {}
        for group in call.group:
            column = self.model.column(call.entity, group.path)
            cut = {"minute": "datetime", "hour": "datetime"}.get(group.cut or "", "date")
            text = cut if group.cut else _taken(column.type)
            groups[group.name] = f"{text} | None" if column.optional or group.path.roles else text
        title = self.typed_dict(name, {**groups, **computed})
        return f"list[{title}]" if call.group else title

    def computed(self, how: str, type: Type | None) -> str:
        if how == "count":
            return "int"
        text = "float" if how == "avg" else _taken(type) if type is not None else "Any"
        return text if how == "sum" else f"{text} | None"

    def write_answer(self, name: str, call: Write) -> str:
        entity = self.model.entities[call.entity]
        if call.returns:
            row = self.row(name, call.entity, Select(call.returns))
            return f"{row} | None" if call.kind in ("update", "delete") else row
        if call.kind in ("create", "upsert"):
            return self.created(name, entity, call.children)
        return "None" if call.by_key else "int"

    def created(self, place: str, entity: Entity, children: Children) -> str:
        fields: dict[str, str] = {}
        for field in entity.fields.values():
            columns = _columns(entity, field.name)
            if field.computed is not None or not columns:
                continue
            text = _tuple([_taken(column.type) for column in columns])
            if all(column.name in entity.key for column in columns):
                fields[field.name] = text
            elif field.now or field.source is not None or field.default is not None:
                fields[field.name] = f"NotRequired[{text}{' | None' if field.optional is not None else ''}]"
        for role_name, below in children.items():
            role = entity.roles[role_name]
            inner = self.created(f"{place}_new_{role_name}", self.model.entities[role.entity], below)
            fields[role_name] = f"NotRequired[{inner} | None]" if role.most == 1 else f"NotRequired[list[{inner}]]"
        return self.typed_dict(f"{place}_done", fields)

    def row(self, place: str, name: str, select: Select, *, may_be_gone: bool = False) -> str:
        """The class of a row of an answer, and those of the rows in it.

        A row behind a reference may be gone: the reference keeps its key, and everything else is missing.
        """
        entity = self.model.entities[name]
        fields: dict[str, str] = {}
        for field in entity.fields.values():
            columns = [column for column in _columns(entity, field.name) if column.name in select.columns]
            if columns and field.name not in select.roles:
                text = _tuple([_taken(column.type) for column in columns])
                keeps = columns[0].type.is_collection or columns[0].computed or columns[0].name in entity.key
                missing = columns[0].optional or (may_be_gone and not keeps)
                fields[field.name] = f"{text} | None" if missing else text
        for role_name, inner in select.roles.items():
            role = entity.roles[role_name]
            title = self.row(f"{place}_{role_name}", role.entity, inner, may_be_gone=not role.many)
            optional = not role.many and (may_be_gone or any(entity.columns[each].optional for each in role.columns))
            single = f"{title} | None" if optional or role.most == 1 else title
            fields[role_name] = f"list[{title}]" if role.many and role.most != 1 else single
        return self.typed_dict(place, fields)

    def typed_dict(self, place: str, fields: Mapping[str, str]) -> str:
        title = self.title(place)
        body = "\n".join(f"    {name}: {text}" for name, text in fields.items()) or "    pass"
        self.classes.append(f"class {title}(TypedDict):\n{body}")
        return title


def _columns(entity: Entity, field: str) -> list[Column]:
    return [column for column in entity.columns.values() if column.field == field and not column.hidden]


def _given(type: Type, *, any_order: bool = False) -> str:
    """What a caller may give for a type; texts of times and identifiers are taken, too.

    Sets are given as lists as well, and so is what `in` looks for as a set (`any_order`), but no list as a set.
    """
    if type.of is not None:
        of = _given(type.of)
        # A text is a sequence of texts, too, and no list of them.
        ordered = "list[str] | tuple[str, ...]" if of == "str" else f"Sequence[{of}]"
        return f"{ordered} | Set[{of}]" if type.kind == "set" or any_order else ordered
    if type.kind in ("uuid", "date", "timestamp"):
        return f"{_NAMES[type.kind]} | str"
    if type.kind == "decimal":
        return "Decimal | int | str"
    if type.kind == "bytes":
        return "bytes | bytearray | memoryview"
    return _taken(type)


def _taken(type: Type) -> str:
    """What an answer holds for a type."""
    if type.of is not None:
        return f"frozenset[{_taken(type.of)}]" if type.kind == "set" else f"tuple[{_taken(type.of)}, ...]"
    if type.kind == "enum":
        return f"Literal[{', '.join(repr(name) for name, _ in type.values)}]"
    return _NAMES[type.kind]


def _tuple(types: Sequence[str]) -> str:
    return types[0] if len(types) == 1 else f"tuple[{', '.join(types)}]"


def _signature(arguments: Sequence[str]) -> str:
    """Arguments by keyword only."""
    return ", ".join(["self", *(["*", *arguments] if arguments else [])])


def _snake(text: str) -> str:
    return text.replace("-", "_").lower()
