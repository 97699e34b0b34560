"""Canonical values as BSON holds them, and the code that turns documents into rows and back.

| type | BSON | why |
|---|---|---|
| string, text, enum, ulid | string | the simple collation compares UTF-8 bytes: code point order |
| int | int or long | the driver takes the shorter one; they compare as numbers |
| decimal | Decimal128 | exact: 34 digits hold our 18; readable, and `$inc` adds it |
| float | double | |
| bool | bool | |
| timestamp | Date | milliseconds |
| date | Date, at midnight in UTC | BSON has no date of its own |
| uuid | Binary, subtype 4 | 16 bytes each, so that they compare byte by byte |
| bytes | string of hexadecimal digits | BSON compares the length of a Binary before its bytes |
| json | string, compact | opaque to us: its names may hold `$` and `.`, and its numbers any number of digits |
| set, list | array (a set sorted) | |
| a sum that is kept | Decimal128, and a second one for its digits beyond the 22 last | exact without a bound |

A missing value is no field at all. Values of calls only ever become BSON values: in filters they stand behind an
operator, in pipelines behind `$literal`, so that no text can turn into an operator or a path.

The port tells the driver how `Decimal` and `TOP` are written. Conversions are expressions in Python, compiled once per
list of fields; only field names (as `repr`) and names of the helpers below get into the code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from struct import Struct
from typing import Any

from keyplan.engines.unreadable import guarded
from keyplan.model.types import Type
from keyplan.model.values import compact_json, sort_key, words

ID = "_id"

Document = dict[str, Any]
Row = dict[str, Any]


class Top:
    """Greater than every value: BSON's MaxKey."""

    def __repr__(self) -> str:
        return "MaxKey"


TOP = Top()


@dataclass(frozen=True)
class Native:
    """How values of one type are held: expressions over `{v}` both ways, and the name in `$jsonSchema`."""

    encode: str
    decode: str
    bson: tuple[str, ...]


_PLAIN = {
    "string": Native("{v}", "{v}", ("string",)),
    "text": Native("{v}", "{v}", ("string",)),
    "enum": Native("{v}", "{v}", ("string",)),
    "ulid": Native("{v}", "{v}", ("string",)),
    "bytes": Native("{v}.hex()", "unhex({v})", ("string",)),
    "uuid": Native("{v}", "{v}", ("binData",)),
    "int": Native("{v}", "int({v})", ("int", "long")),
    "decimal": Native("{v}", "number({v})", ("decimal",)),
    "float": Native("{v}", "{v}", ("double",)),
    "bool": Native("{v}", "{v}", ("bool",)),
    "date": Native("midnight({v})", "{v}.date()", ("date",)),
    "timestamp": Native("{v}", "{v}", ("date",)),
    "json": Native("dumps({v})", "loads({v})", ("string",)),
}
_SUM = {
    "int": Native("decimal({v})", "int(number({v}))", ("decimal", "int", "long")),
    "decimal": Native("{v}", "number({v})", ("decimal", "int")),
}

_HALVES = Struct("<QQ").unpack
_SPECIAL, _EXPONENT, _BIAS, _COEFFICIENT = 3 << 61, 0x3FFF, 6176, (1 << 49) - 1
_WIDE = Context(prec=34, Emin=-6176, Emax=6144)


def _number(value: Any) -> Any:
    """A Decimal128 as a decimal, several times as fast as the driver does it; a plain number as it is.

    The 128 bits are a sign, an exponent of 14 bits and a binary coefficient, unless two bits say otherwise.
    """
    try:
        low, high = _HALVES(value.bid)
    except AttributeError:
        return value  # a kept sum, which the server holds as a plain number while it is one
    if high & _SPECIAL == _SPECIAL:
        return value.to_decimal()
    found = Decimal((high & _COEFFICIENT) << 64 | low).scaleb((high >> 49 & _EXPONENT) - _BIAS, _WIDE)
    return found.copy_negate() if high >> 63 and found else found


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


@dataclass(frozen=True)
class Slot:
    """A value in a document: its path in entries, the field that holds it, its type."""

    path: str
    field: str
    """As a filter names it: `total`, `_id`, `_id.order`; of an embedded row, the field of the element."""
    type: Type
    nullable: bool = True
    sum: bool = False
    """A kept aggregate, which may pass the range of its type."""
    high: str = ""
    """A sum: the field of its leading digits, which most sums do not need."""
    copied: bool = False
    """Of another row, which may be gone: then even a set is missing."""

    @property
    def native(self) -> Native:
        if self.sum:
            return _SUM.get(self.type.kind, _PLAIN[self.type.kind])
        return native(self.type)


def native(type: Type) -> Native:
    """How a type is held."""
    return Native("", "", ("array",)) if type.of is not None else _PLAIN[type.kind]


LOW_DIGITS = 22
"""Digits of an amount that are added to a sum's own field; 34 hold the sum of a million million such amounts."""
_EXACT = Context(prec=200)


def split(slot: Slot, amount: Any) -> tuple[Decimal, Decimal]:
    """The leading digits of an amount, as a number of their own, and the others."""
    value = Decimal(amount)
    unit = Decimal((0, (1,), LOW_DIGITS - slot.type.scale))
    high = _EXACT.divide_int(value, unit)
    return high, _EXACT.subtract(value, _EXACT.multiply(high, unit))


def sum_fields(slot: Slot, amount: Any) -> Document:
    """What is added to the fields of a sum, or stored in them."""
    high, low = split(slot, amount)
    return {slot.field: low, slot.high: high} if high and slot.high else {slot.field: low}


def _joined(scale: int) -> Callable[[Any, Any], Decimal]:
    unit, last = Decimal((0, (1,), LOW_DIGITS - scale)), Decimal((0, (1,), -scale))

    def join(high: Any, low: Any) -> Decimal:
        return _EXACT.quantize(_EXACT.add(_EXACT.multiply(_number(high), unit), _number(low)), last)

    return join


class Names:
    """The helpers that compiled expressions may use, and objects interned for them."""

    def __init__(self) -> None:
        self.env: dict[str, Any] = {
            "unhex": bytes.fromhex,
            "midnight": _midnight,
            "loads": json.loads,
            "dumps": compact_json,
            "decimal": Decimal,
            "number": _number,
        }

    def of(self, thing: object) -> str:
        name = f"o{len(self.env)}"
        self.env[name] = thing
        return name

    def encode(self, slot: Slot, variable: str) -> str:
        """An expression for a value that is there."""
        type = slot.type
        if type.of is None:
            return slot.native.encode.format(v=variable)
        inner = native(type.of).encode.format(v="i")
        if type.kind == "list":
            return f"[{inner} for i in {variable}]"
        # Sorted, so that equal sets are equal arrays.
        key = "" if type.of.kind not in ("uuid",) else f", key={self.of(sort_key(type.of))}"
        return f"[{inner} for i in sorted({variable}{key})]"

    def decode(self, slot: Slot, source: str) -> str:
        """An expression for a value that may be missing: None, or an empty set or list."""
        type = slot.type
        if type.of is not None:
            inner = native(type.of).decode.format(v="i")
            make = "frozenset" if type.kind == "set" else "tuple"
            missing = "None" if slot.copied else f"{make}()"
            listed = "x" if inner == "i" else f"[{inner} for i in x]"
            return f"({missing} if (x := {source}) is None else {make}({listed}))"
        code = slot.native.decode
        if code == "{v}":
            return source
        return f"(None if (x := {source}) is None else {code.format(v='x')})"

    def decode_sum(self, slot: Slot, inside: str) -> str:
        """An expression for a sum, whose leading digits may stand in a field of their own."""
        join = self.of(_joined(slot.type.scale))
        low = f"{inside}.get({slot.field!r}, 0)"
        whole = f"(x if (h := {inside}.get({slot.high!r})) is None else {join}(h, x))"
        return f"(None if (x := {low}) is None else {slot.native.decode.format(v=whole)})"

    def compile(self, code: str) -> Any:
        return eval(code, self.env)


def encoder(slot: Slot) -> Callable[[Any], Any]:
    """A function for single values, which are not missing."""
    names = Names()
    made: Callable[[Any], Any] = names.compile(f"lambda v: {names.encode(slot, 'v')}")
    return made


def element_encoder(type: Type) -> Callable[[Any], Any]:
    """A function for the elements of a set or list."""
    assert type.of is not None
    return encoder(Slot("", "", type.of))


def tuple_encoder(slots: Sequence[Slot]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A function from a sequence of canonical values to a tuple of BSON values."""
    names = Names()
    codes = [names.encode(slot, f"v[{n}]") for n, slot in enumerate(slots)]
    if all(code == f"v[{n}]" for n, code in enumerate(codes)):
        return tuple
    made: Callable[[Sequence[Any]], tuple[Any, ...]] = names.compile(f"lambda v: ({''.join(c + ', ' for c in codes)})")
    return made


def fields_encoder(slots: Iterable[Slot]) -> Callable[[Mapping[str, Any]], Document]:
    """A function from an entry to the fields that hold it; what is missing has none, but sets and lists always do."""
    names = Names()
    lines = []
    for slot in slots:
        code = names.encode(slot, "v")
        if slot.high:
            both = f"{names.of(sum_fields)}({names.of(slot)}, v)"
            lines.append(f"    v = get({slot.path!r})\n    if v is not None: d.update({both})")
        elif slot.type.of is not None and not slot.copied:
            lines.append(f"    v = get({slot.path!r}); d[{slot.field!r}] = [] if v is None else {code}")
        else:
            lines.append(f"    v = get({slot.path!r})\n    if v is not None: d[{slot.field!r}] = {code}")
    body = "\n".join(lines)
    exec(f"def encode(entry):\n    get = entry.get; d = {{}}\n{body}\n    return d", names.env)
    made: Callable[[Mapping[str, Any]], Document] = names.env["encode"]
    return made


def document_encoder(
    slots: Iterable[Slot], arrays: Mapping[str, tuple[str, ...]]
) -> Callable[[Mapping[str, Any]], Document]:
    """`fields_encoder`, and the arrays of words that an index is over."""
    encode = fields_encoder(slots)
    if not arrays:
        return encode

    def encode_all(entry: Mapping[str, Any]) -> Document:
        return encode(entry) | {name: word_list(entry, paths) for name, paths in arrays.items()}

    return encode_all


def word_list(entry: Mapping[str, Any], paths: Iterable[str]) -> list[str]:
    """The words of some texts of an entry, each once."""
    texts = [entry.get(path) for path in paths]
    return sorted(frozenset().union(*(words(text) for text in texts if text is not None)))


def changed_words(
    arrays: Mapping[str, tuple[str, ...]], values: Mapping[str, Any], entry: Mapping[str, Any] | None
) -> Document:
    """The arrays of words that a patch changes, from the whole new entry."""
    known = {**(entry or {}), **values}
    return {name: word_list(known, paths) for name, paths in arrays.items() if any(path in values for path in paths)}


def id_encoder(parts: Sequence[Slot], tag: tuple[int, str, str] | None = None) -> Callable[[Sequence[Any]], Any]:
    """A function from the values of all parts of a key to an `_id`: the value, or a document of them in order.

    `tag`: a field that all of them have behind so many parts, and its value."""
    names = Names()
    if not parts:
        return lambda values: "all"
    made: Callable[[Sequence[Any]], Any]
    if len(parts) == 1 and tag is None:
        made = names.compile(f"lambda v: {names.encode(parts[0], 'v[0]')}")
        return made
    pairs = [f"{part.field.partition('.')[2]!r}: {names.encode(part, f'v[{n}]')}" for n, part in enumerate(parts)]
    if tag is not None:
        pairs.insert(tag[0], f"{tag[1]!r}: {tag[2]!r}")
    made = names.compile(f"lambda v: {{{', '.join(pairs)}}}")
    return made


def source_of(slot: Slot, inside: str) -> str:
    """The expression that takes a slot's value out of `inside`, a document or an element of an array."""
    head, _, rest = slot.field.partition(".")
    if head != ID:
        return f"{inside}.get({slot.field!r})"
    return f"d[{ID!r}][{rest!r}]" if rest else f"d[{ID!r}]"


def row_code(names: Names, slots: Sequence[Slot], inside: str) -> str:
    """A dict display with a row's values; slots in the `_id` are always taken from the document `d`."""
    return ", ".join(
        f"{slot.path!r}: "
        + (names.decode_sum(slot, inside) if slot.high else names.decode(slot, source_of(slot, inside)))
        for slot in slots
    )


def rows_decoder(
    where: str, slots: Sequence[Slot], along: Mapping[str, Callable[[Document], list[Row]]]
) -> Callable[[Iterable[Document]], list[Row]]:
    """A function from documents to rows, with lists of embedded rows under their roles."""

    def parts() -> Iterator[tuple[str, Callable[[Iterable[Document]], list[Row]]]]:
        yield from ((slot.path, _rows_decoder([slot], {})) for slot in slots)
        yield from ((role, _rows_decoder([], {role: decode})) for role, decode in along.items())

    return guarded(_rows_decoder(slots, along), where, parts)


def _rows_decoder(
    slots: Sequence[Slot], along: Mapping[str, Callable[[Document], list[Row]]]
) -> Callable[[Iterable[Document]], list[Row]]:
    names = Names()
    pairs = row_code(names, slots, "d")
    for role, decode in along.items():
        pairs += f"{', ' if pairs else ''}{role!r}: {names.of(decode)}(d)"
    made: Callable[[Iterable[Document]], list[Row]] = names.compile(f"lambda docs: [{{{pairs}}} for d in docs]")
    return made


def elements_decoder(
    array: str, slots: Sequence[Slot], keys: Sequence[Slot], ways: Sequence[bool]
) -> Callable[[Document], list[Row]]:
    """A function from a document to the rows embedded under a field, in the order of `keys`, downwards by those whose
    way is True."""
    names = Names()
    row = row_code(names, slots, "e")
    codes = [names.decode(slot, source_of(slot, "e")) for slot in keys]
    sorts = ""
    last = len(codes)
    for first in reversed(range(len(codes))):  # sorts are stable: the last parts first, those of one way together
        if first == 0 or ways[first - 1] != ways[first]:
            key = "".join(f"{code}, " for code in codes[first:last])
            down = ", reverse=True" if ways[first] else ""
            sorts += f"    if len(found) > 1: found = sorted(found, key=lambda e: ({key}){down})\n"
            last = first
    exec(
        f"def decode(d):\n"
        f"    found = d.get({array!r})\n"
        f"    if not found: return []\n"
        f"{sorts}"
        f"    return [{{{row}}} for e in found]",
        names.env,
    )
    made: Callable[[Document], list[Row]] = names.env["decode"]
    return made


def key_decoder(slots: Sequence[Slot]) -> Callable[[Document], tuple[Any, ...]]:
    """A function from a document to the values of key parts."""
    names = Names()
    codes = "".join(names.decode(slot, source_of(slot, "d")) + ", " for slot in slots)
    made: Callable[[Document], tuple[Any, ...]] = names.compile(f"lambda d: ({codes})")
    return made
