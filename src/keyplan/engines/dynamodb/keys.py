"""Keys as text: a tuple of values becomes one string whose UTF-8 order is the order of the tuples.

Parts are joined by `#` and stay readable in the console:

| type | text | example |
|---|---|---|
| string, text, enum | as it is, but for `$` escapes | `ann@example.com`, `Ann$_Lee` |
| uuid, ulid, date | canonical form | `2026-11-05` |
| timestamp | ISO 8601, milliseconds | `2026-11-05T09:30:00.000Z` |
| int | a letter for the number of digits, then the digits | `b42`, `d2026`, `a0` |
| decimal | the same, by the digits before the point | `c123.45` |
| bool | `f` or `t` | `t` |
| bytes | hexadecimal | `00ff` |
| float | 16 hexadecimal digits | `c009000000000000` |

**Escapes.** `#` must sort below everything that can follow inside a part, or a longer string would land among the
keys of a shorter one. So each of the 36 characters up to `$` is written as `$` and the character 63 places on: all
escapes sort above `#` and below every other character, and among themselves like what they stand for. A space is
`$_`, `#` is `$b`, `$` is `$c`; letters, digits and `% & ' ( ) * + , - . / : ; < = > ? @ _` stay. The last three code
points of Unicode are escaped behind U+10FFFD: U+10FFFE marks a missing value that sorts last, and U+10FFFF is never
stored, so that `text + U+10FFFF` is above every key that begins with `text`.

**Negative numbers** have capital letters and complemented digits (`S4` is -5), so they sort below and backwards.

**Descending parts**, for orders of mixed direction, are mirrored character by character and end in `~`; they need not
be readable.

**Missing values** of an optional part sort where the part says: `!` is below and U+10FFFE above every value (`~` or
`~~` where the values are plain ASCII or mirrored).

A key that would be empty is written `!`, as DynamoDB refuses empty keys.
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Literal, NamedTuple

from keyplan.engines.dynamodb.limits import LIMITS
from keyplan.errors import ArgumentError, UnsupportedError
from keyplan.model.checks import most_bytes
from keyplan.model.types import Type

SEPARATOR = "#"
ABOVE = "\U0010ffff"
"""Never part of a key: sorts above everything that can follow the same beginning."""
_LOW = "!"
_HIGH_TEXT = "\U0010fffe"
_HIGH_PLAIN = "~"
_HIGH_MIRRORED = "~~"

Missing = Literal["low", "high"]
Encode = Callable[[object], str]
Decode = Callable[[str], object]


@dataclass(frozen=True)
class KeyPart:
    """One component of a key: its type, its direction, and where rows without a value go."""

    type: Type
    descending: bool = False
    missing: Missing | None = None
    """`low` or `high` in the order of the stored keys; None: the value is never missing."""


class Bounds(NamedTuple):
    """An inclusive range of key texts, as BETWEEN takes it; exact for the keys of one codec."""

    low: str
    high: str


_ESCAPES = {code: f"${chr(code + 63)}" for code in range(0x25)}
_ESCAPES |= {0x10FFFD + number: f"\U0010fffd{number}" for number in range(3)}
_SPECIAL = re.compile("[\\x00-\\x24\U0010fffd-\U0010ffff]")
_ESCAPED = re.compile("\\$(.)|\U0010fffd(.)", re.DOTALL)


def _encode_text(value: object) -> str:
    text: str = value  # type: ignore[assignment]
    return text.translate(_ESCAPES) if _SPECIAL.search(text) else text


def _unescape(match: re.Match[str]) -> str:
    low, high = match.groups()
    return chr(ord(low) - 63) if low is not None else chr(0x10FFFD + int(high))


def _decode_text(text: str) -> object:
    if "$" in text or "\U0010fffd" in text:
        return _ESCAPED.sub(_unescape, text)
    return text


_NINES = str.maketrans("0123456789", "9876543210")
# By number of digits: a..s for 1 to 19 digits, and S..A for negative numbers, so that more digits sort lower.
_POSITIVE = ("", *(chr(0x60 + digits) for digits in range(1, 20)))
_NEGATIVE = ("", *(chr(0x54 - digits) for digits in range(1, 20)))


def _encode_int(value: object) -> str:
    number: int = value  # type: ignore[assignment]
    if number >= 0:
        digits = str(number)
        return _POSITIVE[len(digits)] + digits
    digits = str(-number)
    return _NEGATIVE[len(digits)] + digits.translate(_NINES)


def _decode_int(text: str) -> object:
    return int(text[1:]) if text[0] >= "a" else -int(text[1:].translate(_NINES))


def _encode_decimal(value: object) -> str:
    number: Decimal = value  # type: ignore[assignment]
    digits = format(abs(number), "f")
    whole = digits.find(".")
    length = whole if whole >= 0 else len(digits)
    if number >= 0:
        return _POSITIVE[length] + digits
    return _NEGATIVE[length] + digits.translate(_NINES)


def _decode_decimal(text: str) -> object:
    return Decimal(text[1:]) if text[0] >= "a" else -Decimal(text[1:].translate(_NINES))


_DOUBLE = struct.Struct(">d")
_BITS = struct.Struct(">Q")
_SIGN = 1 << 63
_ALL = (1 << 64) - 1


def _encode_float(value: object) -> str:
    # Adding 0.0 turns -0.0 into 0.0.
    bits: int = _BITS.unpack(_DOUBLE.pack(value + 0.0))[0]  # type: ignore[operator]
    return format(bits ^ (_ALL if bits & _SIGN else _SIGN), "016x")


def _decode_float(text: str) -> object:
    bits = int(text, 16)
    number: float = _DOUBLE.unpack(_BITS.pack(bits ^ (_SIGN if bits & _SIGN else _ALL)))[0]
    return number


def _encode_bool(value: object) -> str:
    return "t" if value else "f"


def _decode_bool(text: str) -> object:
    return text == "t"


def _encode_bytes(value: object) -> str:
    data: bytes = value  # type: ignore[assignment]
    return data.hex()


def _decode_bytes(text: str) -> object:
    return bytes.fromhex(text)


def _encode_date(value: object) -> str:
    day: date = value  # type: ignore[assignment]
    return day.isoformat()


def _decode_date(text: str) -> object:
    return date.fromisoformat(text)


def encode_timestamp(value: object) -> str:
    """ISO 8601 with milliseconds and `Z`; always 24 characters, so text order is time order."""
    moment: datetime = value  # type: ignore[assignment]
    return moment.isoformat(timespec="milliseconds")[:23] + "Z"


def decode_timestamp(text: str) -> object:
    return datetime.fromisoformat(text)


def _decode_same(text: str) -> object:
    return text


_CODECS: dict[str, tuple[Encode, Decode]] = {
    "string": (_encode_text, _decode_text),
    "text": (_encode_text, _decode_text),
    "enum": (_encode_text, _decode_text),
    "int": (_encode_int, _decode_int),
    "decimal": (_encode_decimal, _decode_decimal),
    "float": (_encode_float, _decode_float),
    "bool": (_encode_bool, _decode_bool),
    "bytes": (_encode_bytes, _decode_bytes),
    "date": (_encode_date, _decode_date),
    "timestamp": (encode_timestamp, decode_timestamp),
    "uuid": (str, uuid.UUID),
    "ulid": (str, _decode_same),
}
_FREE_TEXT = ("string", "text", "enum")


def _codec(type: Type) -> tuple[Encode, Decode]:
    try:
        return _CODECS[type.kind]
    except KeyError:
        raise UnsupportedError(f"dynamodb: a value of type '{type}' cannot be part of a key") from None


# Mirrored text keeps one byte for the usual characters: `$` to `|` are swapped end for end, which leaves `~` for the
# terminator, above them all, and `$` for the rest, below them all: the complemented UTF-8 bytes of one character.
_MIRROR = {code: chr(0xA1 - code) for code in range(0x24, 0x7D)}
_COMPLEMENT = bytes(255 - byte for byte in range(256))


class _Mirror(dict[int, str]):
    def __missing__(self, code: int) -> str:
        text = "$" + chr(code).encode().translate(_COMPLEMENT).hex()
        if len(self) < 1000:
            self[code] = text
        return text


_MIRRORED = _Mirror(_MIRROR)


def _mirror(text: str) -> str:
    return text.translate(_MIRRORED)


def _unmirror(text: str) -> str:
    pieces: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "$":
            lead = 255 - int(text[at + 1 : at + 3], 16)
            size = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            end = at + 1 + 2 * size
            pieces.append(bytes.fromhex(text[at + 1 : end]).translate(_COMPLEMENT).decode())
        else:
            end = at + 1
            pieces.append(chr(0xA1 - ord(text[at])))
        at = end
    return "".join(pieces)


def _marker(part: KeyPart) -> str:
    if part.missing == "low":
        return _LOW
    if part.descending:
        return _HIGH_MIRRORED
    return _HIGH_TEXT if part.type.kind in _FREE_TEXT else _HIGH_PLAIN


def part_encoder(part: KeyPart) -> Encode:
    """The compiled encoder of one part."""
    plain, _ = _codec(part.type)
    encode = plain
    if part.descending:

        def encode(value: object) -> str:
            return _mirror(plain(value)) + "~"

    if part.missing is None:
        return encode
    marker = _marker(part)
    return lambda value: marker if value is None else encode(value)


def part_decoder(part: KeyPart) -> Decode:
    """The compiled decoder of one part."""
    _, plain = _codec(part.type)
    decode = plain
    if part.descending:

        def decode(text: str) -> object:
            return plain(_unmirror(text[:-1]))

    if part.missing is None:
        return decode
    marker = _marker(part)
    return lambda text: None if text == marker else decode(text)


_FIXED_BYTES = {"bool": 1, "date": 10, "timestamp": 24, "uuid": 36, "ulid": 26, "float": 16}


def most_part_bytes(part: KeyPart) -> int:
    """The greatest length of one part: every byte of a string may need an escape."""
    kind = part.type.kind
    if kind in ("string", "text"):
        size = most_bytes(part.type) * (3 if part.descending else 2)
    elif kind == "bytes":
        size = 2 * most_bytes(part.type)
    elif kind == "enum":
        encoder = part_encoder(KeyPart(part.type, part.descending))
        return max(4 if part.missing else 0, *(len(encoder(name).encode()) for name, _ in part.type.values))
    elif kind == "int":
        size = 20
    elif kind == "decimal":
        size = 1 + 18 + 2  # the letter, the digits, the point and a zero before it
    else:
        size = _FIXED_BYTES[kind]
    return max(size + part.descending, 4 if part.missing else 0)


def before(text: str) -> str:
    """The text that is below `text` and above every smaller key.

    It ends in U+10FFFF, which no key holds, so no key can lie between the two.
    """
    last = ord(text[-1])
    return text[:-1] + chr(0xD7FF if last == 0xE000 else last - 1) + ABOVE


def after(text: str) -> str:
    """A text above the complete key `text` and below every greater key of the same codec."""
    return text + " "


def _greater(one: str, other: str) -> str:
    return one if one.encode() > other.encode() else other


class KeyCodec:
    """Compiles the parts of one key, with a constant prefix, into encode, decode and ranges.

    >>> codec = KeyCodec([KeyPart(Type("string")), KeyPart(Type("int"))], prefix="LINE#")
    >>> codec.encode(["a b", 12])
    'LINE#a$_b#b12'
    >>> codec.decode('LINE#a$_b#b12')
    ('a b', 12)
    >>> codec.bounds(["a b"], low=[3], high=[12])
    Bounds(low='LINE#a$_b#a3', high='LINE#a$_b#b12')
    """

    def __init__(
        self,
        parts: Sequence[KeyPart],
        *,
        prefix: str = "",
        most: int = LIMITS.sort_key_bytes,
        name: str = "key",
    ) -> None:
        self.parts = tuple(parts)
        self.prefix = prefix
        self.most = most
        self.name = name
        self._encoders = tuple(part_encoder(part) for part in parts)
        self._decoders = tuple(part_decoder(part) for part in parts)
        # An empty last value would be a prefix of its own "missing" marker; a final separator puts it above.
        self._end = SEPARATOR if parts and parts[-1].missing == "low" else ""
        self.encode = self._compile()
        """The key of a tuple of values; ArgumentError where it is longer than DynamoDB takes."""

    def _compile(self) -> Callable[[Sequence[object]], str]:
        encoders, prefix, end, most = self._encoders, self.prefix, self._end, self.most
        short = most // 4
        if len(encoders) == 1:
            (only,) = encoders

            def encode(values: Sequence[object]) -> str:
                text = prefix + only(values[0]) + end or _LOW
                return text if len(text) <= short else self._checked(text)

        elif len(encoders) == 2:
            first, second = encoders

            def encode(values: Sequence[object]) -> str:
                text = f"{prefix}{first(values[0])}#{second(values[1])}{end}"
                return text if len(text) <= short else self._checked(text)

        else:

            def encode(values: Sequence[object]) -> str:
                pieces = [encoder(value) for encoder, value in zip(encoders, values, strict=True)]
                text = prefix + SEPARATOR.join(pieces) + end or _LOW
                return text if len(text) <= short else self._checked(text)

        return encode

    def _checked(self, text: str) -> str:
        size = len(text.encode())
        if size > self.most:
            side = "partition" if self.most == LIMITS.partition_key_bytes else "sort"
            raise ArgumentError(
                f"{self.name}: the {side} key '{text[:40]}…' has {size:,} bytes, and dynamodb takes {self.most:,}; "
                "use shorter values"
            )
        return text

    def begins(self, text: str) -> bool:
        """Whether a key may be one of these, by its tag."""
        return text.startswith(self.prefix) if self.parts else text == self.prefix

    def decode(self, text: str) -> tuple[object, ...]:
        """The values of a key that this codec encoded."""
        if not text.startswith(self.prefix):
            raise ValueError(f"{self.name}: '{text[:60]}' does not begin with '{self.prefix}'")
        if text == _LOW and not self.prefix and len(self.parts) == 1 and not self._end:
            text = ""
        body = text[len(self.prefix) : len(text) - len(self._end)]
        if not self.parts:
            return ()
        pieces = body.split(SEPARATOR)
        return tuple(decoder(piece) for decoder, piece in zip(self._decoders, pieces, strict=True))

    def stem(self, values: Sequence[object]) -> str:
        """What every key begins with whose leading parts are `values`; a complete tuple gives the key itself."""
        if len(values) == len(self.parts):
            return self.encode(values)
        pieces = [encoder(value) + SEPARATOR for encoder, value in zip(self._encoders, values, strict=False)]
        return self._checked(self.prefix + "".join(pieces))

    def bounds(
        self,
        values: Sequence[object] = (),
        *,
        low: Sequence[object] | None = None,
        high: Sequence[object] | None = None,
        low_open: bool = False,
        high_open: bool = False,
        starts: str | None = None,
        present: bool = False,
    ) -> Bounds | None:
        """The range of the keys whose leading parts are `values` and whose next parts lie between `low` and `high`.

        A bound of n values compares with the first n parts after `values`, in the order of the stored keys (so for a
        descending part `low` is the greater value); an open bound leaves out the keys equal to it in those n. `starts`
        is what the next part, a string, begins with; `present` leaves out keys whose next part is missing. The answer
        is None where no key can match.
        """
        at = len(values)
        if at == len(self.parts):
            key = self.encode(values)
            return Bounds(key, key)
        stem = self.stem(values)
        part = self.parts[at]
        lower, upper = stem or " ", stem + ABOVE
        if present and part.missing == "low":
            lower = stem + _LOW + "$"
        elif present and part.missing == "high":
            upper = before(stem + _marker(part))
        if starts:
            if part.type.kind not in _FREE_TEXT:
                raise UnsupportedError(f"{self.name}: begins_with needs a string, not '{part.type}'")
            start = _encode_text(starts)
            start = stem + (_mirror(start) if part.descending else start)
            lower, upper = start, start + ABOVE
        if low is not None:
            text = stem + self._joined(at, low)
            lower = _greater(lower, text + "$" if low_open else text + self._goes_on(at + len(low)))
        if high is not None:
            follows = self._goes_on(at + len(high))
            text = stem + self._joined(at, high) + follows
            if high_open:
                limit = before(text) if text else ""
            elif follows:
                limit = text + ABOVE
            else:
                limit = text or _LOW
            upper = limit if limit.encode() < upper.encode() else upper
        if lower.encode() > upper.encode():
            return None
        return Bounds(self._checked(lower), self._checked(upper))

    def _goes_on(self, count: int) -> str:
        """What follows the first `count` parts in a key: a separator, or nothing at its end."""
        return SEPARATOR if self._end or count < len(self.parts) else ""

    def _joined(self, at: int, values: Sequence[object]) -> str:
        encoders = self._encoders[at : at + len(values)]
        return SEPARATOR.join([encoder(value) for encoder, value in zip(encoders, values, strict=True)])

    @property
    def most_bytes(self) -> int:
        """The greatest length a key of these parts can reach, escapes included."""
        total = len(self.prefix.encode()) + len(self._end) + max(0, len(self.parts) - 1)
        return total + sum(most_part_bytes(part) for part in self.parts)
