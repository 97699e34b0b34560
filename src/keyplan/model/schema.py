"""A JSON Schema of model files, with which editors complete keys and underline typing errors.

It knows the shape of a model, not its meaning: names and expressions are checked by loading it. Its keys are the
loader's own, so the two cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Iterable

from keyplan.model.load_entity import ENTITY_KEYS
from keyplan.model.load_field import FLAGS, LONG_KEYS
from keyplan.model.load_pattern import CONSISTENCIES, PATTERN_KEYS
from keyplan.model.load_select import WITH_KEYS
from keyplan.model.load_write import KINDS, REPEAT_KEYS, TRANSACTION_KEYS, WRITE_KEYS

Schema = dict[str, object]

IDENTIFIER = "^[A-Za-z][A-Za-z0-9_]{0,63}$"

DESCRIPTIONS = {
    "count": "rows at steady state: 500, 20k, 2M (k M G T are powers of 1000); in a pattern, the entity to count",
    "fields": "name: type, marks; for example email: string(32), unique",
    "key": "the fields of the key, in order; parts may be paths inside a reference's key",
    "unique": "sets of fields that are unique together: [[a, b]]",
    "ttl": "how long a row lives: 90d from its creation, or 30m since last_seen",
    "skew": "how uneven the traffic is: zipf 1.1",
    "top": "share of the traffic that the hottest one gets: 5%",
    "find": "the entity whose rows are read",
    "from": "the entity whose rows are aggregated by compute",
    "compute": "name: count(), or sum, min, max or avg of an expression of + - *",
    "group": "fields and truncations to group by: [status, day(created_at)], or a map of names to them",
    "rank": "the entity of the row whose place in the order is asked",
    "of": "the parts of the key of the row that is ranked",
    "sum": "Entity.field",
    "min": "Entity.field",
    "max": "Entity.field",
    "avg": "Entity.field",
    "where": "conditions joined by and: user = :user_id and created_at >= ago('30d')",
    "order": "created_at desc, total",
    "page": "rows of a page",
    "limit": "rows after which the answer is cut",
    "select": "the paths to return; all own fields without it",
    "with": "roles and paths that come along: [user.name, items]",
    "rows": "how many rows match on average",
    "rate": "how often: 200k/day, 10/s, or very high, high, medium, low",
    "peak": "the highest sustained rate over the average: 5x, or 5x 2h/day",
    "p99": "the latency that 99 of 100 calls keep: 10ms",
    "consistency": "eventual (default), session (a client sees its own writes) or strong",
    "stale": "how old the answer may be: 1m",
    "create": "the entity; the key has to be new",
    "upsert": "the entity; the row is replaced, or with set or add changed or created",
    "update": "the entity whose rows are changed",
    "delete": "the entity whose rows are deleted",
    "set": "fields that get a value: [name], or a map of fields to literals, :parameters and now",
    "add": "numbers that are added to: [stock], or {stock: '-:n'}",
    "if": "conditions on the row's own fields, without which nothing is written",
    "return": "fields whose values after the write are returned",
    "writes": "the writes, each with its repeats: take_stock x3 max 15",
    "note": "a remark for people",
}


def json_schema() -> Schema:
    """The schema, in the 2020-12 dialect."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "keyplan model",
        "type": "object",
        "required": ["keyplan", "entities"],
        "additionalProperties": False,
        "properties": {
            "keyplan": {"enum": [1, "1"], "description": "the version of the language"},
            "name": {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_-]{0,63}$"},
            "note": _scalar("note"),
            "entities": _named("entity", "what there is", least=1),
            "patterns": _named("pattern", "what is asked"),
            "writes": _named("write", "what changes"),
            "transactions": _named("transaction", "writes that succeed or fail together"),
            "targets": {
                "type": "object",
                "description": "per engine: what only that engine needs",
                "additionalProperties": {"type": "object"},
            },
        },
        "$defs": {
            "entity": _entity(),
            "field": _field(),
            "pattern": _pattern(),
            "with": _with(),
            "write": _write(),
            "transaction": _transaction(),
            "scalar": {"type": ["string", "number", "boolean"]},
            "texts": {
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/scalar"}}],
            },
        },
    }


def _entity() -> Schema:
    special: Schema = {
        "fields": {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": IDENTIFIER},
            "additionalProperties": {"$ref": "#/$defs/field"},
        },
        "key": {"$ref": "#/$defs/texts"},
        "unique": {"type": "array", "items": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
        "ttl": {
            "anyOf": [
                {"type": "string"},
                _object({"after": {"type": "string"}, "since": {"type": "string"}}, required=("after",)),
            ]
        },
    }
    return _object(_properties(ENTITY_KEYS, special), required=("fields",))


def _field() -> Schema:
    special: Schema = {
        "type": {"type": "string", "description": "string, int, enum(a 90%, b 10%), an entity, count(role), ..."},
        "values": {
            "anyOf": [
                {"type": "array", "items": {"$ref": "#/$defs/scalar"}},
                {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
            ]
        },
        "max": {**_scalar("max"), "description": "the most rows of a reference, bytes of a text, elements of a set"},
        "count": _scalar("count"),
        **{flag: {"type": "boolean"} for flag in FLAGS},
    }
    properties = {name: special.get(name, {"$ref": "#/$defs/scalar"}) for name in LONG_KEYS}
    return {"anyOf": [{"type": "string"}, _object(properties, required=("type",))]}


def _pattern() -> Schema:
    special: Schema = {
        "where": {"$ref": "#/$defs/texts"},
        "order": {"$ref": "#/$defs/texts"},
        "select": {"$ref": "#/$defs/texts"},
        "of": {"$ref": "#/$defs/texts"},
        "with": {"$ref": "#/$defs/with"},
        "group": {
            "anyOf": [{"$ref": "#/$defs/texts"}, {"type": "object", "additionalProperties": {"type": "string"}}],
        },
        "compute": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}},
        "consistency": {"enum": list(CONSISTENCIES)},
    }
    kinds = [{"required": [kind]} for kind in ("find", "count", "sum", "min", "max", "avg", "from", "rank")]
    return {**_object(_properties(PATTERN_KEYS, special)), "oneOf": kinds}


def _with() -> Schema:
    roles: Schema = {
        "type": "object",
        "additionalProperties": _object(
            _properties(
                WITH_KEYS,
                {
                    "order": {"$ref": "#/$defs/texts"},
                    "select": {"$ref": "#/$defs/texts"},
                    "with": {"$ref": "#/$defs/with"},
                },
            )
        ),
    }
    return {"anyOf": [{"type": "string"}, roles, {"type": "array", "items": {"anyOf": [{"type": "string"}, roles]}}]}


def _write() -> Schema:
    changes: Schema = {
        "anyOf": [
            {"$ref": "#/$defs/texts"},
            {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {"type": ["string", "number", "boolean", "array", "null"]},
            },
        ]
    }
    special: Schema = {
        "where": {"$ref": "#/$defs/texts"},
        "if": {"$ref": "#/$defs/texts"},
        "with": {"$ref": "#/$defs/texts"},
        "return": {"$ref": "#/$defs/texts"},
        "set": changes,
        "add": changes,
    }
    return {**_object(_properties(WRITE_KEYS, special)), "oneOf": [{"required": [kind]} for kind in KINDS]}


def _transaction() -> Schema:
    repeat: Schema = {name: {"$ref": "#/$defs/scalar"} for name in REPEAT_KEYS}
    writes: Schema = {
        "type": "array",
        "minItems": 1,
        "items": {"anyOf": [{"type": "string"}, _object(repeat, required=("write",))]},
        "description": DESCRIPTIONS["writes"],
    }
    return {"anyOf": [writes, _object(_properties(TRANSACTION_KEYS, {"writes": writes}), required=("writes",))]}


def _properties(names: Iterable[str], special: Schema) -> Schema:
    """A property per key: scalars, but for those with a shape of their own; each with its description."""
    found: Schema = {}
    for name in names:
        shape = special.get(name)
        found[name] = (
            _scalar(name) if shape is None else {"description": DESCRIPTIONS.get(name, name), **_as_schema(shape)}
        )
    return found


def _as_schema(shape: object) -> Schema:
    assert isinstance(shape, dict)
    return shape


def _scalar(name: str) -> Schema:
    return {"$ref": "#/$defs/scalar", "description": DESCRIPTIONS.get(name, name)}


def _object(properties: Schema, required: Iterable[str] = ()) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        **({"required": list(required)} if required else {}),
    }


def _named(definition: str, description: str, least: int = 0) -> Schema:
    return {
        "type": "object",
        "description": description,
        "minProperties": least,
        "propertyNames": {"pattern": IDENTIFIER},
        "additionalProperties": {"$ref": f"#/$defs/{definition}"},
    }
