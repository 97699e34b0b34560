"""The JSON Schema of the design document; strict, so that a field that nobody described fails the tests."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

OPS = ("get", "batch_get", "query", "scan", "filter", "sort", "aggregate", "write")


def document_schema() -> Schema:
    """What `keyplan design --format json` prints, as a JSON Schema of draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "keyplan design document",
        **_object(
            {
                "model": _text("The name of the model."),
                "engine": _text("The name of the engine."),
                "objective": _objective(),
                "settings": _free("The engine's own choices for the whole design, such as a billing mode."),
                "structures": _list(_structure(), "What there is on the engine, in the order in which it is made."),
                "homes": _map(_text(), "Per entity: the view that is its home, where its whole rows are kept."),
                "patterns": _map(_either(_pattern(), _unserved()), "Per pattern: how it runs."),
                "writes": _map(_either(_write(), _unserved()), "Per write: how it is done."),
                "findings": _list(_finding(), "What the user should know."),
                "against_lock": _difference(),
            },
            optional=("against_lock",),
        ),
        "$defs": {"embed": _embed()},
    }


def _objective() -> Schema:
    return _object(
        {
            "unit": _text("What the value counts: dollars a month, or milliseconds of server time per second."),
            "value": _number("The cost of the design."),
            "bound": _number("No design of the space that was searched is cheaper than this."),
            "gap": _number("How far the value may be from the best, as a share of it; 0 is proven optimal."),
            "carrying": _number("The part of the value that structures are thought to cost by being there."),
            "seconds": _number("How long it took; the only field that differs between two runs."),
            "candidates": _whole("How many views were considered."),
        },
        "What was minimised, and how well it is known.",
    )


def _structure() -> Schema:
    return _object(
        {
            "name": _text("Its name on the engine."),
            "kind": _text("The engine's word for it: table, gsi, index, collection."),
            "settings": _free("What the engine needs to know besides, such as attribute names."),
            "views": _list(_view(), "What it holds; several views share an overloaded structure."),
        }
    )


def _view() -> Schema:
    texts = {
        "partition": "The key parts that a read has to fix, as paths from the entity; empty: one partition for all.",
        "sort": "The key parts by which entries are sorted within a partition.",
        "holds": "The paths in each entry, and for an index that leads to the row (a base and no projection) also what "
        "is taken from there; one through a reference is a copy.",
        "sparse": "The conditions under which a row has an entry; empty: every row that has the key's values.",
        "measures": "The aggregates kept per key; then there is an entry per group instead of per row.",
        "because": "The patterns and writes that read it.",
    }
    return _object(
        {
            "name": _text("Its name, unique in the design."),
            "entity": _text("Whose rows it holds."),
            "kind": _text("The kind of structure."),
            **{name: _list(_text(), text) for name, text in texts.items()},
            "stored": _stored(),
            "embeds": _list({"$ref": "#/$defs/embed"}, "Child rows stored with each entry."),
            "shards": _whole("Into how many parts each partition is split; 1: it is not."),
            "bucket": _text("The truncation of time that splits partitions, or null.", null=True),
            "projection": _text("What the engine copies into an index, in its own word, or null.", null=True),
            "unique": {"type": "boolean", "description": "A second row with the same key is refused."},
            "packed": {"type": "boolean", "description": "Each partition is one stored value."},
            "base": _text("The view over which the engine keeps it, or null if keyplan keeps it.", null=True),
            "rows": _number("Entries."),
            "bytes": _number("Size with overheads."),
            "partitions": _number("Partitions."),
            "cost": _number("Storage and its part of every write, in the objective's unit."),
            "storage": _number("The part of the cost that does not depend on any call."),
        }
    )


def _stored() -> Schema:
    keys = {
        "partition": _text("The partition key: `ORDER#{order_id}`."),
        "sort": _text("The sort key: `ORDER#ITEM#{line}`."),
    }
    text = "The keys as they are stored, with `{paths}` in place of values, or null where parts are stored one by one."
    return {"oneOf": [_object(keys), {"type": "null"}], "description": text}


def _embed() -> Schema:
    return _object(
        {
            "role": _text("The to-many role of the parent."),
            "entity": _text("Whose rows they are."),
            "sort": _list(_text(), "Their order."),
            "holds": _list(_text(), "The paths in each of them."),
            "stored": _stored(),
            "limit": {"type": ["integer", "null"], "description": "Only the first so many are kept here, or null."},
            "embeds": _list({"$ref": "#/$defs/embed"}, "Rows stored with them in turn."),
        }
    )


def _pattern() -> Schema:
    return _object(
        {
            "served": {"const": True, "description": "Whether there is a plan within the limits."},
            "steps": _list(_step(), "What is done, in the order in which it is done."),
            **_figures(),
            "p99_budget_ms": {"type": ["number", "null"], "description": "The model's `p99`, or null."},
            "rate": _number("Calls per second."),
            "total": _number("All calls together, in the objective's unit."),
            "consistency": {"enum": ["strong", "session", "eventual"], "description": "As the model asks for it."},
        }
    )


def _write() -> Schema:
    touch = _object(
        {
            "view": _text("The view that is written."),
            "on": _text("The structure it is in."),
            "puts": _number("Entries written, those that move included."),
            "deletes": _number("Entries removed, those that move included."),
            "units": _units(),
        }
    )
    return _object(
        {
            "served": {"const": True},
            "touches": _list(touch, "What is written."),
            "steps": _list(_step(), "What is read first, then what is written."),
            "how": {
                "enum": ["atomic", "converges"],
                "description": "All at once, or one after the other and repaired.",
            },
            **_figures(),
            "rate": _number("Calls per second."),
            "total": _number("All calls together, in the objective's unit."),
        }
    )


def _unserved() -> Schema:
    return _object(
        {
            "served": {"const": False},
            "reason": _text("Why it cannot be served."),
            "change": _text("The mildest change to the model that would serve it."),
        },
        optional=("change",),
    )


def _step() -> Schema:
    lists = {
        "where": "The conditions that it answers.",
        "by": "What is sorted or grouped by.",
        "order": "The order in which the entries come.",
        "with": "The roles whose rows come along.",
        "compute": "The aggregates.",
    }
    properties = {
        "op": {"enum": list(OPS), "description": "What is done."},
        "view": _text("The view that is read or written."),
        "on": _text("The structure that the view is in."),
        **{name: _list(_text(), text) for name, text in lists.items()},
        "at": _text("The role whose embedded rows are read, instead of the entries themselves."),
        "for": _text("The field or role that the answer fills in."),
        "why": _text("What a write reads it for."),
        "merge": {"const": True, "description": "The answers of several partitions are merged."},
        "walk": {"const": True, "description": "Time buckets are read in order until there are enough rows."},
        "parallel": {"const": True, "description": "It runs in the same round trip as the step before."},
        "beyond": _whole("It runs only where so many rows have come along already, which may not be all."),
        "if_gone": {
            "const": True,
            "description": "It runs only for references that lead nowhere, which are taken to be one in a million.",
        },
        "requests": _number("Requests."),
        "rows": _number("Entries read; for a filter, rows left."),
        "times_the_mean": _number("A set is read whole to be sorted, and taken to be so many times as large as usual."),
        "units": _units(),
        "puts": _number("Entries written."),
        "deletes": _number("Entries removed."),
    }
    return _object(properties, optional=tuple(name for name in properties if name != "op"))


def _figures() -> Schema:
    return {
        "requests": _number("Requests per call."),
        "round_trips": _whole("Rounds of requests, one after the other."),
        "rows": _number("Rows in the answer; of a paged pattern, in one page; of a write, entries written."),
        "bytes": _number("Bytes read per call."),
        "units": _units(),
        "cost": _number("One call: the objective's unit without its `/month` or `/s`."),
        "p99_ms": _number("The expected p99; of a write, until it is done."),
    }


def _finding() -> Schema:
    return _object(
        {
            "severity": {"enum": ["error", "warning", "note"], "description": "How bad it is."},
            "path": _text("What it is about."),
            "line": _whole("The line of the model, or 0."),
            "message": _text("What it is."),
            "fix": _text("What to do, or empty."),
            "evidence": _free("The figures behind it."),
        }
    )


def _difference() -> Schema:
    place = _object(
        {
            "structure": _text("The name on the engine."),
            "kind": _text("The kind of structure."),
            "view": _text("The view."),
            "entity": _text("Its entity."),
            "key": _list(_text(), "Its key, partition first."),
            "because": _list(_text(), "The patterns and writes that read it."),
        }
    )
    move = _object({"from": place, "to": place, "changes": _list(_text(), "What differs, in words.")})
    steps = {when: _list(_text(), f"Its steps {when} the change.") for when in ("before", "after")}
    missing = _object({"name": _text("The pattern or write."), "reason": _text("Why.")})
    choice = _object(
        {"name": _text("The setting."), "before": _text("As locked."), "after": _text("As it is in this design.")}
    )
    cost = _object(
        {
            "unit": _text("The objective's unit."),
            "before": _number("The locked structures under the model as it is now."),
            "after": _number("This design."),
            "lacks": _list(_text(), "What the locked design lacks; the cost before is without it."),
        }
    )
    return _object(
        {
            "same": {"type": "boolean", "description": "Nothing differs."},
            "added": _list(place, "Views that are new."),
            "dropped": _list(place, "Views that are gone."),
            "moved": _list(move, "Views that do the same work under another key or with other contents."),
            "structures": _list(
                _text(), "Structures that keep the same views otherwise, as under another kind of key."
            ),
            "settings": _list(choice, "The engine's choices for the whole design that are others."),
            "patterns": _list(_object({"name": _text("The pattern."), **steps}), "Patterns that run differently."),
            "served": _list(_text(), "Patterns and writes that are served now and were not."),
            "unserved": _list(missing, "Patterns and writes that were served and are not now."),
            "cost": cost,
        },
        "What differs from the lock file; only where there is one.",
    )


def _object(properties: Schema, description: str = "", *, optional: tuple[str, ...] = ()) -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }
    return {**({"description": description} if description else {}), **schema}


def _list(items: Schema, description: str) -> Schema:
    return {"type": "array", "items": items, "description": description}


def _map(values: Schema, description: str) -> Schema:
    return {"type": "object", "additionalProperties": values, "description": description}


def _free(description: str) -> Schema:
    return {"type": "object", "description": description}


def _either(*schemas: Schema) -> Schema:
    return {"oneOf": list(schemas)}


def _text(description: str = "", *, null: bool = False) -> Schema:
    kind = {"type": ["string", "null"] if null else "string"}
    return {**kind, "description": description} if description else kind


def _number(description: str) -> Schema:
    return {"type": "number", "minimum": 0, "description": description}


def _whole(description: str) -> Schema:
    return {"type": "integer", "minimum": 0, "description": description}


def _units() -> Schema:
    return _map(_number("So many."), "The engine's own units.")
