"""The types of values, and what a value of each looks like in Python.

| type | canonical Python value | ordered by |
|---|---|---|
| string, text | str | code point |
| bytes | bytes | unsigned bytes |
| json | what `json.loads` gives | not ordered |
| int | int | number |
| decimal | Decimal with exactly the scale's digits | number |
| float | float | number |
| bool | bool | false < true |
| enum | str | code point |
| date | datetime.date | time |
| timestamp | datetime in UTC, whole milliseconds | time |
| uuid | uuid.UUID | unsigned bytes |
| ulid | str, 26 upper-case characters | text, which equals unsigned bytes |
| set | frozenset of scalars | not ordered |
| list | tuple of scalars | not ordered |

Missing is None everywhere inside keyplan.
"""

from __future__ import annotations

from dataclasses import dataclass

SCALARS = (
    "string",
    "text",
    "bytes",
    "json",
    "int",
    "decimal",
    "float",
    "bool",
    "enum",
    "date",
    "timestamp",
    "uuid",
    "ulid",
)
COLLECTIONS = ("set", "list")


@dataclass(frozen=True)
class Type:
    """The type of a field: a scalar, or a set or list of one."""

    kind: str
    size: float = 0.0
    """Average bytes of a string, text, bytes or json; average length of a set or list."""
    most: int | None = None
    """Greatest bytes of a string, text, bytes or json; greatest length of a set or list."""
    scale: int = 0
    """Digits after the point of a decimal."""
    values: tuple[tuple[str, float], ...] = ()
    """The values of an enum with their shares, which sum to 1; of a bool, ('true', share)."""
    of: Type | None = None
    """The type of a set's or list's elements."""

    @property
    def is_collection(self) -> bool:
        return self.kind in COLLECTIONS

    @property
    def is_ordered(self) -> bool:
        return self.kind not in ("json", "set", "list")

    def __str__(self) -> str:
        if self.kind == "enum":
            return f"enum({', '.join(name for name, _ in self.values)})"
        if self.kind == "decimal":
            return f"decimal({self.scale})"
        if self.of is not None:
            return f"{self.kind}({self.of})"
        return self.kind


def article(kind: str) -> str:
    """The kind of a type with its article, as sentences need it: an enum, a json."""
    return f"{'an' if kind[0] in 'aeio' else 'a'} {kind}"


_EXAMPLES = {
    "int": "42",
    "decimal": "1.5",
    "float": "0.5",
    "bool": "true",
    "date": "2026-01-31",
    "timestamp": "2026-01-31T12:30:00Z",
    "uuid": "11111111-1111-4111-8111-111111111111",
    "ulid": "01JGFJJZ000000000000000000",
    "bytes": "AAE=",
}


def such_as(type: Type, said: object, verb: str = "write") -> str:
    """What to write instead of a value that does not fit, unless what was `said` of it tells."""
    if ";" in str(said):
        return ""
    if type.kind == "enum" or (type.kind == "timestamp" and "such as" in str(said)):
        return f"; {verb} it like that"  # the complaint itself says how it looks
    if type.of is not None:
        return f"; {verb} a {type.kind} of {type.of}"
    example = _EXAMPLES.get(type.kind)
    if type.kind == "decimal" and type.scale == 0:
        example = _EXAMPLES["int"]
    elif type.kind == "decimal" and type.scale == 18:  # no digit is left before the point
        example = _EXAMPLES["float"]
    return f"; {verb} one such as {example}" if example else f"; {verb} another"


def to_give(type: Type, said: object) -> str:
    """The same for the argument of a call, which is a value of Python, or of JSON."""
    if type.kind == "bytes" or (type.kind in ("string", "text") and "expected" in str(said)):
        return f"; give {'bytes' if type.kind == 'bytes' else 'text'}" if ";" not in str(said) else ""
    return such_as(type, said, "give")
