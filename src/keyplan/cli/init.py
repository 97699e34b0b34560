"""`keyplan init`."""

from __future__ import annotations

from importlib.resources import files

import click

from keyplan.cli.options import write_text


@click.command()
@click.argument("file", required=False, default="-", metavar="[FILE]")
def command(file: str) -> None:
    """Print a commented starter model.

    With FILE it is written there instead; a file that exists is never overwritten.

    \b
    Example:
      keyplan init shop.yaml
    """
    text = files("keyplan.cli").joinpath("starter.yaml").read_text(encoding="utf-8")
    if file == "-":
        click.echo(text, nl=False)
        return
    try:
        write_text(file, text, new=True)
    except FileExistsError:
        raise click.ClickException(f"'{file}' exists; name another file or remove it") from None
    click.echo(f"wrote {file}; next: keyplan design {file} --engine NAME", err=True)
