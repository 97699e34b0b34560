"""Values as DynamoDB holds them: attributes in DynamoDB JSON, and the sizes by which AWS charges.

| type | attribute | why |
|---|---|---|
| string, text, enum, uuid, ulid, date | S | readable, ordered as text |
| timestamp | S, ISO 8601 with milliseconds | readable; text order is time order, so filters compare it exactly |
| json | S, compact | opaque to us, and a map would count 1 to 4 bytes more per element |
| int, decimal, float | N | 38 digits hold 64-bit integers, 18-digit decimals and any float's shortest form |
| bytes | B | |
| bool | BOOL | |
| set | SS, NS, BS; of bool: L | DynamoDB has no empty sets: an empty one is left out, as is an empty list |
| list | L | |

A missing value is no attribute at all: encoders return None for None and for empty collections.

**Expiry** takes two attributes. DynamoDB's own deletion wants whole epoch seconds (N), which would expire rows up to a
second early or late; so `expiry_seconds` is rounded up, for DynamoDB's garbage collection only, and the exact moment
stays beside it as an ordinary timestamp, which reads and conditions compare.
"""

from __future__ import annotations

import json
import math
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Context, Decimal, Inexact
from typing import Any

from keyplan.engines.dynamodb.keys import decode_timestamp, encode_timestamp
from keyplan.model.types import Type

Attribute = dict[str, Any]
Item = Mapping[str, Attribute]
Encode = Callable[[Any], Attribute | None]
Decode = Callable[[Attribute | None], Any]

_EXACT = Context(prec=38, traps=[Inexact])


def _write_decimal(value: Decimal) -> str:
    return format(value, "f")


def _write_float(value: float) -> str:
    return repr(value + 0.0)


def _read_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(Decimal(text))  # a server may write 1E+2


def _read_decimal(scale: int) -> Callable[[str], Decimal]:
    unit = Decimal(1).scaleb(-scale)
    return lambda text: Decimal(text).quantize(unit, context=_EXACT)


def _write_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _write_bytes(value: bytes) -> str:
    return b64encode(value).decode()


def _same(value: Any) -> Any:
    return value


Inner = tuple[str, Callable[[Any], Any], Callable[[Any], Any]]


def _inner(type: Type) -> Inner:
    """The tag of a scalar type, and how its inner text is written and read."""
    kind = type.kind
    if kind == "decimal":
        return "N", _write_decimal, _read_decimal(type.scale)
    return _SCALARS[kind]


_SCALARS: dict[str, Inner] = {
    "string": ("S", _same, _same),
    "text": ("S", _same, _same),
    "enum": ("S", _same, _same),
    "ulid": ("S", _same, _same),
    "uuid": ("S", str, uuid.UUID),
    "date": ("S", date.isoformat, date.fromisoformat),
    "timestamp": ("S", encode_timestamp, decode_timestamp),
    "json": ("S", _write_json, json.loads),
    "int": ("N", str, _read_int),
    "float": ("N", _write_float, float),
    "bytes": ("B", _write_bytes, b64decode),
    "bool": ("BOOL", _same, _same),
}


def attribute_encoder(type: Type) -> Encode:
    """The compiled function from a canonical value to DynamoDB JSON; None where nothing is to be stored.

    >>> attribute_encoder(Type("int"))(42)
    {'N': '42'}
    """
    if type.of is None:
        tag, write, _ = _inner(type)
        if write is _same:
            return lambda value: None if value is None else {tag: value}
        return lambda value: None if value is None else {tag: write(value)}
    tag, write, _ = _inner(type.of)
    if type.kind == "list" or tag == "BOOL":
        return lambda values: {"L": [{tag: write(value)} for value in values]} if values else None
    # Sorted, so that equal sets are equal requests.
    return lambda values: {tag + "S": sorted([write(value) for value in values])} if values else None


def attribute_decoder(type: Type) -> Decode:
    """The compiled function from DynamoDB JSON, or None for no attribute, to the canonical value."""
    if type.of is None:
        tag, _, read = _inner(type)
        if read is _same:
            return lambda found: None if found is None else found[tag]
        return lambda found: None if found is None else read(found[tag])
    tag, _, read = _inner(type.of)
    if type.kind == "list":
        return lambda found: tuple([read(each[tag]) for each in found["L"]]) if found else ()
    if tag == "BOOL":
        return lambda found: frozenset([each["BOOL"] for each in found["L"]]) if found else frozenset()
    return lambda found: frozenset([read(each) for each in found[tag + "S"]]) if found else frozenset()


def expiry_seconds(moment: datetime) -> int:
    """The whole epoch second, rounded up, after which DynamoDB may delete what expires at `moment`."""
    return math.ceil(moment.timestamp())


def number_bytes(text: str) -> int:
    """The size of a number: one byte per two significant digits, and one.

    AWS calls that approximate. DynamoDB Local counts exactly: the pairs of digits left and right of the decimal point,
    from the first to the last that is not zero, and a byte more for a negative number.

    >>> [number_bytes(text) for text in ("0", "100", "12000", "1.5", "-5")]
    [1, 2, 3, 3, 3]
    """
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    significant = "".join(map(str, digits)).lstrip("0")
    stripped = significant.rstrip("0")
    if not stripped:
        return 1
    exponent += len(significant) - len(stripped)
    return (len(stripped) + exponent % 2 + 1) // 2 + 1 + sign


def value_bytes(value: Attribute) -> int:
    """The size of one value in DynamoDB JSON, by AWS's rules."""
    ((tag, inner),) = value.items()
    if tag == "S":
        text: str = inner
        return len(text) if text.isascii() else len(text.encode())
    if tag == "N":
        return number_bytes(inner)
    if tag == "B":
        padded: str = inner
        return len(padded) * 3 // 4 - padded[-2:].count("=")
    if tag in ("BOOL", "NULL"):
        return 1
    if tag == "L":
        return 3 + sum(1 + value_bytes(each) for each in inner)
    if tag == "M":
        return 3 + sum(1 + len(name.encode()) + value_bytes(each) for name, each in inner.items())
    return sum(value_bytes({tag[0]: each}) for each in inner)


def attribute_bytes(name: str, value: Attribute) -> int:
    """The size of one attribute: its name and its value."""
    return len(name.encode()) + value_bytes(value)


def item_bytes(item: Item) -> int:
    """The size of an item, which decides the units of reading and writing it; storage adds 100 bytes."""
    return sum(attribute_bytes(name, value) for name, value in item.items())
