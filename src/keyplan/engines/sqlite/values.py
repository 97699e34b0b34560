"""Canonical values as SQLite holds them, and the code that turns rows into dicts and back.

| type | SQLite | why |
|---|---|---|
| string, text, enum, ulid | TEXT, binary collation | compares UTF-8 bytes: code point order |
| bytes, uuid | BLOB | compares unsigned bytes |
| int | INTEGER | 64 bits |
| decimal | INTEGER, scaled | 18 digits fit 64 bits; exact, and sums are sums of integers |
| float | REAL | |
| bool | INTEGER 0, 1 | |
| date | INTEGER, days since 1970-01-01 | |
| timestamp | INTEGER, milliseconds since 1970-01-01 | |
| json | TEXT | |
| set, list | TEXT, a JSON array (a set sorted) | |
| a sum that is kept | ANY: INTEGER, or TEXT beyond 64 bits | exact sums have no bound |

Conversions are written out as Python expressions and compiled once per column list: a dict display per row is several
times faster than a loop over columns. Only column names (as `repr`) and names of the helpers below get into the code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from functools import lru_cache
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Any, TypeVar
from uuid import UUID, SafeUUID

from keyplan.engines.unreadable import guarded
from keyplan.errors import StorageError
from keyplan.model.types import Type
from keyplan.model.values import compact_json, from_json, to_json

T = TypeVar("T")
Rows = Iterable[tuple[Any, ...]]
Decode = Callable[[Rows], list[dict[str, Any]]]

_EXACT = Context(prec=100)
_DAY_ZERO = date(1970, 1, 1).toordinal()
_new = object.__new__
_set_int = UUID.__dict__["int"].__set__
_set_safe = UUID.__dict__["is_safe"].__set__
_UNKNOWN = SafeUUID.unknown
_from_bytes = int.from_bytes


@dataclass(frozen=True)
class Native:
    """How values of one type are held: the column's declared type, and expressions over `{v}` both ways."""

    declared: str
    encode: str
    decode: str


class Spoiled(bytes):
    """What stands in the place of a text and is not UTF-8."""


class SpoiledError(StorageError):
    """Rows of which some values are `Spoiled`; whoever knows the columns can tell which."""

    rows: Sequence[tuple[Any, ...]] = ()


def text_of(data: bytes) -> str | Spoiled:
    """A stored text, or what is there instead."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Spoiled(data)


def _uuid(data: bytes) -> UUID:
    """A UUID past its constructor, which would check and convert for a microsecond what we wrote ourselves."""
    if len(data) != 16:
        raise ValueError("not 16 bytes")
    made: UUID = _new(UUID)
    _set_int(made, _from_bytes(data))
    _set_safe(made, _UNKNOWN)
    return made


KEPT = 4096
"""Functions that are compiled once for all searches, and stores, that want the same columns in the same way."""


class Names:
    """The helpers that compiled expressions may use, and objects interned for them."""

    def __init__(self) -> None:
        self.env: dict[str, Any] = {
            "mul": _EXACT.multiply,
            "EPOCH": datetime(1970, 1, 1, tzinfo=UTC),
            "MS": timedelta(milliseconds=1),
            "date_of": date.fromordinal,
            "uuid_of": _uuid,
            "loads": json.loads,
            "dumps": compact_json,
        }

    def of(self, thing: object) -> str:
        name = f"o{len(self.env)}"
        self.env[name] = thing
        return name

    def native(self, type: Type, *, sum: bool = False) -> Native:
        """How a type is held; `sum`: of a kept aggregate, which may outgrow 64 bits."""
        kind = type.kind
        if kind == "decimal":
            unit = self.of(Decimal((0, (1,), -type.scale)))
            power = self.of(Decimal(10**type.scale))
            if sum:
                wide, narrow = self.of(_wide), self.of(int)
                return Native("ANY", f"{wide}(int(mul({{v}}, {power})))", f"mul({narrow}({{v}}), {unit})")
            return Native("INTEGER", f"int(mul({{v}}, {power}))", f"mul({{v}}, {unit})")
        if kind == "int" and sum:
            return Native("ANY", f"{self.of(_wide)}({{v}})", "int({v})")
        if type.of is not None:
            encode, decode = _collection(type)
            return Native("TEXT", f"{self.of(encode)}({{v}})", f"{self.of(decode)}({{v}})")
        return _PLAIN[kind]

    def compile(self, code: str) -> Any:
        return eval(code, self.env)


_PLAIN = {
    "string": Native("TEXT", "{v}", "{v}"),
    "text": Native("TEXT", "{v}", "{v}"),
    "enum": Native("TEXT", "{v}", "{v}"),
    "ulid": Native("TEXT", "{v}", "{v}"),
    "bytes": Native("BLOB", "{v}", "{v}"),
    "uuid": Native("BLOB", "{v}.int.to_bytes(16)", "uuid_of({v})"),
    "int": Native("INTEGER", "{v}", "{v}"),
    # RETURNING hands out a whole number that was stored as REAL as an int.
    "float": Native("REAL", "{v}", "float({v})"),
    "bool": Native("INTEGER", "+{v}", "{v} == 1"),
    "date": Native("INTEGER", f"{{v}}.toordinal() - {_DAY_ZERO}", f"date_of({{v}} + {_DAY_ZERO})"),
    "timestamp": Native("INTEGER", "({v} - EPOCH) // MS", "EPOCH + {v} * MS"),
    "json": Native("TEXT", "dumps({v})", "loads({v})"),
}


def _wide(number: int) -> int | str:
    """Whole numbers beyond 64 bits go in as text."""
    return number if -(2**63) <= number < 2**63 else str(number)


def add_sums(old: int | str | None, more: int | str | None) -> int | str:
    """The SQL function `keyplan_add`: an exact sum of whole numbers of any size."""
    return _wide(int(old or 0) + int(more or 0))


def has_element(array: str | None, wanted: str) -> bool:
    """The SQL function `keyplan_has`: whether a JSON array has an element, given as JSON."""
    return array is not None and json.loads(wanted) in json.loads(array)


FUNCTIONS: tuple[tuple[str, int, Callable[..., Any]], ...] = (
    ("keyplan_add", 2, add_sums),
    ("keyplan_has", 2, has_element),
)
"""What a connection has to define: name, number of arguments, function. None of them occurs in the schema."""


def element_json(type: Type, value: object) -> str:
    """An element of a set as `keyplan_has` wants it."""
    assert type.of is not None
    return compact_json(to_json(type.of, value))


def _collection(type: Type) -> tuple[Callable[[Any], str], Callable[[str], Any]]:
    assert type.of is not None
    of = type.of
    is_set = type.kind == "set"
    make: Callable[[Iterable[Any]], Any] = frozenset if is_set else tuple

    def encode(value: Any) -> str:
        return compact_json(to_json(type, value))

    def encode_texts(value: Any) -> str:
        return f"[{','.join(map(encode_basestring, sorted(value) if is_set else value))}]"

    def decode(text: str) -> Any:
        return make([from_json(of, item) for item in json.loads(text)])

    def decode_plain(text: str) -> Any:
        return make(json.loads(text))

    texts = of.kind in ("string", "text", "enum", "ulid")
    plain = texts or of.kind in ("int", "float", "bool")
    return encode_texts if texts else encode, decode_plain if plain else decode


def declared(type: Type, *, sum: bool = False) -> str:
    """The declared type of a column of a STRICT table."""
    return Names().native(type, sum=sum).declared


@dataclass(frozen=True)
class Slot:
    """A value in a row: its path in entries, its type, whether it may be missing, whether it is a kept sum."""

    path: str
    type: Type
    nullable: bool = True
    sum: bool = False


def _decode(names: Names, slot: Slot, variable: str) -> str:
    native = names.native(slot.type, sum=slot.sum)
    code = native.decode.format(v=variable)
    if not slot.nullable or native.decode == "{v}":
        return code
    missing = {"set": "frozenset()", "list": "()"}.get(slot.type.kind, "None")
    return f"({missing} if {variable} is None else {code})"


def _encode(names: Names, slot: Slot, variable: str, source: str) -> str:
    native = names.native(slot.type, sum=slot.sum)
    if native.encode == "{v}":
        return source
    code = native.encode.format(v=variable)
    missing = "'[]'" if slot.type.is_collection else "None"
    return f"({missing} if ({variable} := {source}) is None else {code})"


def row_decoder(
    table: str, slots: Sequence[Slot], before: int = 0, after: int = 0, *, wary: bool = False
) -> Callable[[Rows], list[dict[str, Any]]]:
    """A function from raw rows to dicts; the first `before` and last `after` columns of a row are passed over.

    A `wary` one looks for values that are `Spoiled`, for which the others have no time.
    """
    check = _unspoiled if wary else _same
    decode = check(_row_decoder(tuple(slots), before, after), before, before + len(slots))
    last = before + len(slots) + after - 1
    return guarded(
        decode,
        f"table '{table}'",
        lambda: [
            (slot.path, check(_row_decoder((slot,), n, last - n), n, n + 1)) for n, slot in enumerate(slots, before)
        ],
    )


def _unspoiled(decode: Decode, begin: int, end: int) -> Decode:
    def read(rows: Rows) -> list[dict[str, Any]]:
        found = list(rows)
        if any(isinstance(value, Spoiled) for row in found for value in row[begin:end]):
            raise ValueError("not UTF-8")
        return decode(found)

    return read


@lru_cache(KEPT)
def _row_decoder(slots: tuple[Slot, ...], before: int, after: int) -> Callable[[Rows], list[dict[str, Any]]]:
    names = Names()
    pairs = ", ".join(f"{slot.path!r}: {_decode(names, slot, f'r{n}')}" for n, slot in enumerate(slots))
    row = "".join(
        [f"b{n}, " for n in range(before)] + [f"r{n}, " for n in range(len(slots))] + [f"a{n}, " for n in range(after)]
    )
    made: Callable[[Rows], list[dict[str, Any]]] = names.compile(f"lambda rows: [{{{pairs}}} for {row or '_'} in rows]")
    return made


def encoder(slots: Sequence[Slot]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """A function from a tuple of canonical values to one of SQLite values; the identity where they are the same."""
    return _encoder(tuple(slots))


@lru_cache(KEPT)
def _encoder(slots: tuple[Slot, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    names = Names()
    if all(names.native(slot.type, sum=slot.sum).encode == "{v}" for slot in slots):
        return _same
    codes = [_encode(names, slot, "x", f"values[{n}]") for n, slot in enumerate(slots)]
    made: Callable[[tuple[Any, ...]], tuple[Any, ...]] = names.compile(
        f"lambda values: ({''.join(c + ', ' for c in codes)})"
    )
    return made


def _same(values: T, *_: int) -> T:
    return values


def entry_encoder(slots: Sequence[Slot], key: dict[str, int]) -> Callable[[tuple[Any, ...], Any], tuple[Any, ...]]:
    """A function (key, values) -> parameters; paths in `key` are taken from that place of the key."""
    names = Names()
    codes = []
    for slot in slots:
        source = f"key[{key[slot.path]}]" if slot.path in key else f"get({slot.path!r})"
        codes.append(_encode(names, slot, "x", source))
    made = names.compile(f"lambda key, get: ({''.join(code + ', ' for code in codes)})")
    return lambda key, values: made(key, values.get)


def rows_encoder(slots: Sequence[Slot]) -> Callable[[Iterable[Any]], list[tuple[Any, ...]]]:
    """A function from rows, as dicts, to the parameters of each."""
    names = Names()
    codes = "".join(_encode(names, slot, "x", f"get({slot.path!r})") + ", " for slot in slots)
    getter = names.of(attrgetter("get"))
    made: Callable[[Iterable[Any]], list[tuple[Any, ...]]] = names.compile(
        f"lambda rows: [({codes}) for get in map({getter}, rows)]"
    )
    return made


def value_encoder(slot: Slot) -> Callable[[Any], Any]:
    """A function for single values."""
    names = Names()
    made: Callable[[Any], Any] = names.compile(f"lambda v: {_encode(names, slot, 'x', 'v')}")
    return made
