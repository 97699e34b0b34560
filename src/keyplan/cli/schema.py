"""`keyplan schema`."""

from __future__ import annotations

import click

import keyplan
from keyplan.cli.output import as_json


@click.command()
def command() -> None:
    """Print the JSON Schema of model files, for editors.

    \b
    Example:
      keyplan schema > keyplan.schema.json
      # yaml-language-server: $schema=keyplan.schema.json    (first line of the model)
    """
    click.echo(as_json(keyplan.json_schema()))
