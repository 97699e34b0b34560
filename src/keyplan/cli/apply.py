"""`keyplan apply`."""

from __future__ import annotations

from typing import Any

import click

import keyplan
from keyplan.cli.options import format_option, model_argument, read_model, url_argument, working, yes_option
from keyplan.cli.output import as_json

DESTROYS, LEAVES = "destroys: ", "leaves: "


@click.command()
@model_argument
@url_argument
@yes_option
@click.option("--destroy", is_flag=True, help="Also do what destroys data.")
@click.option("--no-wait", is_flag=True, help="Do not wait for open stores to notice: there are none.")
@format_option
def command(model_file: str, url: str, yes: bool, destroy: bool, no_wait: bool, form: str) -> None:
    """Create what a design needs on a server.

    The design is that of the lock file beside the model, or the cheapest one if there is none. It is recorded on the
    server, and stores run what is recorded.

    \b
    Example:
      keyplan apply shop.yaml sqlite:shop.db --yes
    """
    model = read_model(model_file, url=url)
    with working(f"applying {model.name}") as say:
        steps = keyplan.apply(model, url, dry=not yes, destroy=destroy, wait=not no_wait, progress=say)
    document = _plain(steps, made=yes)
    if form == "json":
        click.echo(as_json(document))
    else:
        for step in steps:
            click.echo(step)
        if not document["changes"]:
            click.echo("nothing to do; the design is there already")
    if document["changes"] and not yes:
        click.echo("nothing was done; add --yes to do it", err=True)


def _plain(steps: list[str], *, made: bool) -> dict[str, Any]:
    """The steps as a document, in which what is only left as it is stands apart from what is changed."""
    changes = [
        {"summary": step.removeprefix(DESTROYS), "destructive": step.startswith(DESTROYS)}
        for step in steps
        if not step.startswith(LEAVES)
    ]
    left = [step.removeprefix(LEAVES) for step in steps if step.startswith(LEAVES)]
    return {"made": made, "changes": changes, "left": left}
