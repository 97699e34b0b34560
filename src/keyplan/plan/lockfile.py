"""Designs as text: the lock file, the same byte for byte for the same design.

The form is generic. A dataclass becomes an object with its class under `$` and the fields that differ from their
defaults; tuples become lists; values that JSON has no form for become objects with their type under `$`. So a new field
with a default keeps old lock files readable, and nothing has to be written here for it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

from keyplan.errors import DesignError, trouble_with
from keyplan.model import entity, pattern, types, write
from keyplan.model.model import Model
from keyplan.plan import design, steps, view
from keyplan.plan.design import Design

FORMAT = 1

_CLASSES: dict[str, Any] = {
    name: found
    for module in (types, entity, pattern, write, view, steps, design)
    for name, found in vars(module).items()
    if isinstance(found, type) and found.__module__ == module.__name__
}
_STATISTICS = {
    *("line", "note", "file", "warnings", "targets", "target_lines", "traffic", "rows", "p99_ms"),
    *("count", "distinct", "skew", "top", "size", "usual"),
}
"""Fields of a model that may change without a design becoming wrong, only dearer."""


def lock_file(model: Model, engine: str) -> Path | None:
    """Where the lock file of a model lies, or would lie: beside it; None for a model that is not in a file."""
    if not model.file or not Path(model.file).suffix:
        return None
    path = Path(model.file)
    return path.with_name(f"{path.stem}.{engine}.lock.json")


def locked_text(model: Model, engine: str) -> tuple[str, str] | None:
    """The text of the lock file beside a model, if there is one, and its name."""
    path = lock_file(model, engine)
    if path is None or not path.is_file():
        return None
    try:
        return path.read_text(encoding="utf-8", errors="replace"), str(path)  # what is no text is no design
    except OSError as error:
        raise DesignError(f"{path}: {trouble_with(error)}") from error


@lru_cache(maxsize=8)
def lock_text(model: Model, design: Design) -> str:
    """The text of a lock file.

    Whoever applies a design opens it next, often several times, and each time the text is compared with the record; so
    those of the last few are kept, by the objects, which nobody changes."""
    settled = replace(design, objective=replace(design.objective, seconds=0.0))
    encoded = encode(settled)
    document = {
        "keyplan": FORMAT,
        "model": model.name,
        "engine": design.engine,
        "model_hash": model_hash(model),
        "checksum": _checksum(encoded),
        "design": encoded,
    }
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def design_hash(text: str) -> str:
    """The hash under which a lock text is recorded on a server."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_lock(
    text: str,
    model: Model | None = None,
    where: str = "the lock file",
    remedy: str = "make it again with 'keyplan design --save'",
    elsewhere: str = "",
) -> Design:
    """The design in a lock text; with a model, one that fits it. Errors say where it stands and what the remedy is, or
    `elsewhere` if it is for another model, which the remedy would not make good."""
    try:
        document = json.loads(text)
        kind = document["keyplan"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise DesignError(f"{where}: this is not a design of keyplan; {remedy}") from None
    if kind != FORMAT:
        raise DesignError(f"{where}: format {kind!r} is of another version of keyplan; {remedy}, or use that version")
    try:
        if model is not None:
            if document["model"] != model.name:
                elsewhere = elsewhere or f"{remedy}, or name the model it was made for"
                raise DesignError(
                    f"{where}: it is for the model '{document['model']}', not for '{model.name}'; {elsewhere}"
                )
            if document["model_hash"] != model_hash(model):
                raise DesignError(f"{where}: the model has changed since the design was made; {remedy}")
        if document.get("checksum") != _checksum(document["design"]):
            raise DesignError(f"{where}: it was changed since keyplan wrote it; {remedy}")
        found = decode(document["design"])
    except (KeyError, TypeError, ValueError) as error:
        raise DesignError(f"{where}: it is damaged: {error}; {remedy}") from None
    if not isinstance(found, Design):
        raise DesignError(f"{where}: it holds no design; {remedy}")
    return found


def _checksum(encoded: Any) -> str:
    """Views, structures, plans and write plans name each other: a design that was edited by hand fails anywhere."""
    return hashlib.sha256(json.dumps(encoded, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def model_hash(model: Model) -> str:
    """A hash of what a model means, its statistics left out: they decide what is cheapest, not what is right."""
    parts = [meaning(encode(part)) for part in (model.entities, model.patterns, model.writes, model.transactions)]
    text = json.dumps([model.name, parts], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def meaning(value: Any) -> Any:
    """Part of a model, encoded, without its statistics."""
    if isinstance(value, list):
        return [meaning(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = value
    if "$" in value and value["$"] in _CLASSES:
        kept = {name: item for name, item in value.items() if name not in _STATISTICS}
        if "optional" in kept:
            kept["optional"] = bool(kept["optional"] is not None)
        if value["$"] == "Type" and "values" in kept:
            kept["values"] = [name for name, _ in kept["values"]]
    return {name: meaning(item) for name, item in kept.items()}


def encode(value: Any) -> Any:
    """A value as plain JSON."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, pattern.Path):
        return {"$": "Path", "roles": list(value.roles), "column": value.column}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$": "float", "value": str(value)}
    if is_dataclass(value) and not isinstance(value, type):
        return _object(value)
    if isinstance(value, list):
        return {"$": "list", "value": [encode(item) for item in value]}
    if isinstance(value, frozenset):
        items = [encode(item) for item in value]
        return {"$": "set", "value": sorted(items, key=lambda item: json.dumps(item, sort_keys=True))}
    if isinstance(value, Mapping):
        plain = {name: encode(item) for name, item in value.items()}
        return {"$": "map", "value": plain} if "$" in plain else plain
    for kind, (write_out, _) in _SCALARS.items():
        if type(value).__name__ == kind:
            return {"$": kind, "value": write_out(value)}
    raise TypeError(f"a design cannot hold a {type(value).__name__}")


def _object(value: Any) -> dict[str, Any]:
    result: dict[str, Any] = {"$": type(value).__name__}
    for name, default in _defaults(value.__class__):
        item = getattr(value, name)
        if default is item or (item.__class__ is default.__class__ and item == default):
            continue
        result[name] = encode(item)
    return result


@cache
def _defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    """The fields of a class, each with the value that is left out; MISSING, which no field has, if there is none."""
    return tuple(
        (one.name, one.default if one.default_factory is MISSING else one.default_factory()) for one in fields(kind)
    )


def decode(value: Any) -> Any:
    """The inverse of `encode`."""
    if isinstance(value, list):
        return tuple(decode(item) for item in value)
    if not isinstance(value, dict):
        return value
    kind = value.get("$")
    if kind is None:
        return {name: decode(item) for name, item in value.items()}
    if kind == "map":
        return {name: decode(item) for name, item in value["value"].items()}
    if kind == "list":
        return [decode(item) for item in value["value"]]
    if kind == "set":
        return frozenset(decode(item) for item in value["value"])
    if kind == "float":
        return float(value["value"])
    if kind in _SCALARS:
        return _SCALARS[kind][1](value["value"])
    found = _CLASSES.get(kind)
    if found is None:
        raise ValueError(f"unknown noun '{kind}'")
    return found(**{name: decode(item) for name, item in value.items() if name != "$"})


_SCALARS: dict[str, tuple[Any, Any]] = {
    "Decimal": (str, Decimal),
    "datetime": (datetime.isoformat, datetime.fromisoformat),
    "date": (date.isoformat, date.fromisoformat),
    "UUID": (str, UUID),
    "bytes": (lambda data: base64.b64encode(data).decode(), lambda text: base64.b64decode(text)),
}
