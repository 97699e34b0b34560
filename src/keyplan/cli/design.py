"""`keyplan design`."""

from __future__ import annotations

import click

import keyplan
from keyplan.cli.options import engine_option, format_option, model_argument, read_model, working


@click.command()
@model_argument
@engine_option
@format_option
def command(model_file: str, engine: str, form: str) -> int:
    """Find the cheapest schema that serves every pattern of a model.

    Exit 1 if a pattern cannot be served; the reason and what would serve it are in the output.

    \b
    Example:
      keyplan design shop.yaml --engine dynamodb
    """
    from keyplan.cli.output import as_json, design_text

    model = read_model(model_file)
    with working(f"designing {model.name} for {engine}"):
        found = keyplan.design(model, engine)
        document = keyplan.document(model, found)
    click.echo(as_json(document) if form == "json" else design_text(document))
    return 1 if found.unserved else 0
