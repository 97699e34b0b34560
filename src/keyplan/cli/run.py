"""`keyplan run`."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import click

import keyplan
from keyplan.cli.options import format_option, model_argument, read_model, read_text, url_argument, working
from keyplan.cli.output import answer_text, as_json, executed_text


@click.command()
@model_argument
@url_argument
@click.argument("name", metavar="PATTERN")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--all", "everything", is_flag=True, help="All pages, not only the first.")
@click.option("--cursor", help="Continue where an earlier page ended.")
@click.option("--consistency", type=click.Choice(["eventual", "session", "strong"]), help="What a pattern has to see.")
@click.option("--explain", is_flag=True, help="Also say what was really done: steps, requests and rows.")
@format_option
def command(
    model_file: str,
    url: str,
    name: str,
    arguments: tuple[str, ...],
    everything: bool,
    cursor: str | None,
    consistency: str | None,
    explain: bool,
    form: str,
) -> None:
    """Run one pattern or write by name.

    Values are read by the type they have in the model: lists as a,b,c or JSON, rows as JSON. NAME=@FILE takes the
    value from a JSON file (@- from stdin); null in it clears an optional field, which a text cannot.

    \b
    Example:
      keyplan run shop.yaml sqlite:shop.db orders_of_user user_id=… --format json
      keyplan run shop.yaml sqlite:shop.db orders_of_user user_id=… --consistency strong --explain
      keyplan run shop.yaml sqlite:shop.db place_order user=… total=9.90 items=@items.json
    """
    model = read_model(model_file, url=url)
    texts, documents = _split(arguments)
    values = keyplan.arguments_from_text(model, name, texts, documents)
    if "explain" in values:
        raise keyplan.ArgumentError(f"{name}: unknown argument 'explain'; write --explain")
    pattern = model.patterns.get(name)
    if everything and (pattern is None or pattern.kind != "find" or pattern.one):
        raise keyplan.ArgumentError(f"{name}: its answer is not a list of rows; leave out --all")
    if everything and explain:
        raise keyplan.ArgumentError(f"{name}: --explain is about one call; leave out --all")
    if consistency is not None and pattern is None:
        raise keyplan.ArgumentError(f"{name}: only patterns have a consistency; leave out --consistency")
    if cursor is not None:
        values["cursor"] = cursor
    if consistency is not None:
        values["consistency"] = consistency
    with working(f"running {name}"), keyplan.open(model, url, create=False) as store:
        call = getattr(store, name)
        done = None
        if explain:
            result, done = call(**values, explain=True)
        else:
            result = list(call.all(**values)) if everything else call(**values)
    nothing = "nothing found" if name in model.patterns else "done"
    if form == "text":
        result = _told(model, model.calls[name], result)
    _show(result, None if done is None else asdict(done), form, nothing)


def _told(model: keyplan.Model, call: Any, answer: Any) -> Any:
    """An answer in which values of json fields are text: taken for rows that nest, they would become columns."""
    if hasattr(answer, "cursor"):
        return replace(answer, rows=_told(model, call, answer.rows))
    if isinstance(answer, dict) and not hasattr(call, "entity"):  # what the writes of a transaction gave
        return {name: _told(model, model.writes[name], one) for name, one in answer.items()}
    return _with_json(model, call.entity, answer)


def _with_json(model: keyplan.Model, entity: str, answer: Any) -> Any:
    if isinstance(answer, list):
        return [_with_json(model, entity, row) for row in answer]
    if not isinstance(answer, dict):
        return answer
    about = model.entities[entity]
    found = {}
    for name, value in answer.items():
        field = about.fields.get(name)
        if field is not None and field.type is not None and field.type.kind == "json" and value is not None:
            found[name] = json.dumps(value, ensure_ascii=False)
        else:
            found[name] = _with_json(model, about.roles[name].entity, value) if name in about.roles else value
    return found


def _split(arguments: tuple[str, ...]) -> tuple[dict[str, str], dict[str, object]]:
    """`name=value` apart from `name=@file`, whose JSON is read."""
    texts: dict[str, str] = {}
    documents: dict[str, object] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not name:
            raise keyplan.ArgumentError(f"'{argument}': not an argument; write name=value, or name=@file for JSON")
        if name in texts or name in documents:
            raise keyplan.ArgumentError(f"'{argument}': '{name}' is given twice; give it once")
        if value.startswith("@"):
            try:
                documents[name] = keyplan.parse_json(read_text(value[1:]))
            except ValueError as error:
                raise keyplan.ArgumentError(f"{value[1:]}: {error}") from None
        else:
            texts[name] = value
    return texts, documents


def _show(result: Any, done: dict[str, Any] | None, form: str, nothing: str) -> None:
    page = hasattr(result, "cursor") and hasattr(result, "rows")
    plain = keyplan.to_plain(result.rows if page else result)
    if form == "json":
        answer = {"rows": plain, "cursor": result.cursor} if page else plain
        click.echo(as_json(answer if done is None else {"answer": answer, "done": done}))
        return
    click.echo(nothing if plain is None else answer_text(plain))
    if done is not None:
        click.echo(f"\n{executed_text(done)}")
    if page and result.cursor is not None:
        click.echo(f"there is more: --cursor {result.cursor}", err=True)
