"""`keyplan apply`."""

from __future__ import annotations

import click

import keyplan
from keyplan.cli.options import model_argument, read_model, url_argument, working, yes_option


@click.command()
@model_argument
@url_argument
@yes_option
@click.option("--destroy", is_flag=True, help="Also do what destroys data.")
@click.option("--no-wait", is_flag=True, help="Do not wait for open stores to notice: there are none.")
def command(model_file: str, url: str, yes: bool, destroy: bool, no_wait: bool) -> None:
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
    for step in steps:
        click.echo(step)
    if all(step.startswith("leaves: ") for step in steps):
        click.echo("nothing to do; the design is there already")
    elif not yes:
        click.echo("nothing was done; add --yes to do it", err=True)
