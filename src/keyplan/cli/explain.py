"""`keyplan explain`."""

from __future__ import annotations

import click

import keyplan
from keyplan.cli.options import engine_option, format_option, model_argument, read_model, settled, working


@click.command()
@model_argument
@click.argument("name", required=False, metavar="[NAME]")
@engine_option
@format_option
def command(model_file: str, name: str | None, engine: str, form: str) -> None:
    """Say how a pattern or write runs, or why a structure is there.

    NAME is a pattern, write, transaction, structure or view; without it, everything is shown at a glance. For a
    structure the model is solved again without it. The design is that of the lock file beside the model, or the
    cheapest one if there is none.

    \b
    Example:
      keyplan explain shop.yaml orders_of_user --engine sqlite
    """
    from keyplan.cli.output import as_json, explanation_text

    model = read_model(model_file)
    design = settled(model, engine)
    with working(f"explaining {name or model.name}"):
        found = keyplan.explain(model, design, name)
    click.echo(as_json(found) if form == "json" else explanation_text(found))
