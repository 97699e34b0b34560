"""`keyplan emit`."""

from __future__ import annotations

from pathlib import Path

import click

import keyplan
from keyplan.cli.options import engine_option, model_argument, read_model, settled, write_text


@click.command()
@model_argument
@engine_option
@click.option("--to", "form", required=True, metavar="FORMAT", help="What to write; a wrong one lists them.")
@click.option("--out", metavar="DIR", help="Write files there instead of printing them ('-': print the only one).")
def command(model_file: str, engine: str, form: str, out: str | None) -> None:
    """Write a design as DDL, templates or client code.

    The design is that of the lock file beside the model, or the cheapest one if there is none.

    \b
    Example:
      keyplan emit shop.yaml --engine sqlite --to sql
    """
    model = read_model(model_file, engine=engine)
    files = keyplan.emit(model, settled(model, engine), form)
    if out == "-" and len(files) > 1:
        raise click.UsageError(f"'--out -' is for one file, and there are {len(files)}; name a folder, or leave it out")
    if out in (None, "-"):
        for name, text in files.items():
            if len(files) > 1:
                click.echo(f"==> {name} <==")
            click.echo(text, nl=not text.endswith("\n"))
        return
    for name, text in files.items():
        target = Path(str(out)) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(target, text)
        click.echo(f"wrote {target}", err=True)
