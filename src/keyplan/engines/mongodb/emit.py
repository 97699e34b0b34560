"""The design for MongoDB's own tools: a mongosh script, JSON Schemas, aggregation pipelines, shard keys.

The texts are rendered from the very commands that `apply` sends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from keyplan.engines.mongodb.changes import index_definitions
from keyplan.engines.mongodb.layout import Place, layout
from keyplan.engines.mongodb.pipelines import pipelines
from keyplan.engines.mongodb.schema import document_schema, validator
from keyplan.engines.mongodb.script import script
from keyplan.engines.mongodb.shard import shard_keys
from keyplan.engines.mongodb.values import Document
from keyplan.errors import UnsupportedError, nearest
from keyplan.model.model import Model
from keyplan.plan.design import Design

FORMATS = ("json-schema", "mongosh", "pipelines")


def emit(model: Model, design: Design, to: str) -> Mapping[str, str]:
    """`mongosh`: collections, validators, indexes, and beside them the shard keys; `json-schema`: a schema per
    collection; `pipelines`: the aggregates of the model over the documents."""
    if to == "mongosh":
        return {
            f"{model.name}.mongosh.js": _mongosh(model, design),
            f"{model.name}.sharding.js": _sharding(model, design),
            f"{model.name}.sharding.md": _reasons(model, design),
        }
    if to == "json-schema":
        return {f"{model.name}.{name}.schema.json": text for name, text in _schemas(model, design).items()}
    if to == "pipelines":
        return {f"{model.name}.pipelines.js": _pipelines(model, design)}
    hint = nearest(to, FORMATS) or f"; there are {', '.join(FORMATS)}"
    raise UnsupportedError(f"mongodb has no format '{to}'{hint}")


def creations(place: Place) -> tuple[Document, list[tuple[Document, Document]]]:
    """The options of a collection, and for each of its indexes the key and the options."""
    indexes = []
    for definition in index_definitions(place).values():
        options = {name: value for name, value in definition.items() if name != "key"}
        indexes.append((definition["key"], options))
    return {"validator": validator(place)}, indexes


def _mongosh(model: Model, design: Design) -> str:
    blocks = [f"// {model.name} on MongoDB 6.0 or later, designed by keyplan. Run with: mongosh URL FILE"]
    for place in layout(model, design).collections:
        name = json.dumps(place.collection)
        options, indexes = creations(place)
        lines = [_comment(design, place.view.name), f"db.createCollection({name}, {script(options)});"]
        views = {index.name: index.view.name for one in place.together for index in one.indexes}
        for key, more in indexes:
            lines.append(_comment(design, views.get(more["name"], "")))
            lines.append(f"db.getCollection({name}).createIndex({script(key)}, {script(more)});")
        blocks.append("\n".join(line for line in lines if line))
    return "\n\n".join(blocks) + "\n"


def _comment(design: Design, view: str) -> str:
    figures = design.figures.get(view)
    return f"// for {', '.join(figures.because)}" if figures is not None and figures.because else ""


def _schemas(model: Model, design: Design) -> dict[str, str]:
    found = {}
    for place in layout(model, design).collections:
        schema = {"title": place.collection, **document_schema(place)}
        found[place.collection] = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    return found


def _sharding(model: Model, design: Design) -> str:
    lines = ["sh.enableSharding(db.getName());"]
    for choice in shard_keys(model, design):
        lines.append(f'sh.shardCollection(db.getName() + ".{choice.collection}", {script(choice.key)});')
    return "\n".join(lines) + "\n"


def _reasons(model: Model, design: Design) -> str:
    lines = [f"# Shard keys of {model.name}", "", "Worked out, not run: keyplan has no sharded cluster to test on.", ""]
    for choice in shard_keys(model, design):
        lines.append(f"- **{choice.collection}** `{script(choice.key)}`: {'; '.join(choice.because)}.")
        lines += [f"  - {problem}" for problem in choice.problems]
    return "\n".join(lines) + "\n"


def _pipelines(model: Model, design: Design) -> str:
    blocks = [f"// The aggregates of {model.name} over the documents themselves. Load into mongosh: load(FILE)"]
    for name, made in pipelines(model, design).items():
        if isinstance(made, str):
            blocks.append(f"// {name}: {made}")
            continue
        text = script(made.stages, 2)
        head = f"function {name}({', '.join(made.parameters)}) {{"
        body = f"  return db.getCollection({json.dumps(made.collection)}).aggregate({text}, {{ allowDiskUse: true }});"
        blocks.append(f"{head}\n{body}\n}}")
    return "\n\n".join(blocks) + "\n"
