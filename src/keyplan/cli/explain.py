"""`keyplan explain`."""

from __future__ import annotations

import click

import keyplan
from keyplan.cli.options import engine_option, format_option, model_argument, read_model, settled, working, write_text


@click.command()
@model_argument
@click.argument("name", required=False, metavar="[NAME]")
@engine_option
@format_option
@click.option("--svg", metavar="FILE", help="Write a picture of the whole design there ('-': print it) instead.")
def command(model_file: str, name: str | None, engine: str, form: str, svg: str | None) -> None:
    """Say how a pattern or write runs, or why a structure is there.

    NAME is a pattern, write, transaction, structure or view; without it, everything is shown at a glance. For a
    structure the model is solved again without it. The design is that of the lock file beside the model, or the
    cheapest one if there is none.

    \b
    Example:
      keyplan explain shop.yaml orders_of_user --engine sqlite
      keyplan explain shop.yaml --engine sqlite --svg shop.svg
    """
    from keyplan.cli.output import as_json, explanation_text

    model = read_model(model_file, engine=engine)
    if svg is not None and name is not None:
        raise click.UsageError("a picture shows the whole design; leave out NAME or --svg")
    design = settled(model, engine)
    if svg is not None:
        _draw(keyplan.picture(model, design), svg)
        return
    with working(f"explaining {name or model.name}"):
        found = keyplan.explain(model, design, name)
    click.echo(as_json(found) if form == "json" else explanation_text(found))


def _draw(text: str, target: str) -> None:
    if target == "-":
        click.echo(text, nl=False)
        return
    write_text(target, text)
    click.echo(f"wrote {target}", err=True)
