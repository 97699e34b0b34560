"""`keyplan design`."""

from __future__ import annotations

import click

import keyplan
from keyplan.cli.options import engine_option, format_option, model_argument, read_model, working


@click.command()
@model_argument
@engine_option
@format_option
@click.option("--save", is_flag=True, help="Write the lock file beside the model; apply and stores use it.")
@click.option("--keep", is_flag=True, help="Keep every structure of the lock file, and add what pays.")
@click.option("--strict", is_flag=True, help="Exit 1 if there is a warning, too.")
def command(model_file: str, engine: str, form: str, save: bool, keep: bool, strict: bool) -> int:
    """Find the cheapest schema that serves every pattern of a model.

    Where the model has a lock file, what would change against it is shown, too. Exit 1 if a pattern cannot be served;
    the reason is in the output.

    \b
    Example:
      keyplan design shop.yaml --engine dynamodb
    """
    from keyplan.cli.output import as_json, design_text, difference_text

    model = read_model(model_file, warn=False, engine=engine)
    try:
        locked = keyplan.load_lock(model, engine, stale=True)
    except keyplan.DesignError:
        if keep or not save:
            raise
        locked = None  # what cannot be read is what --save is to replace
    if keep and locked is None:
        raise keyplan.DesignError(f"{model_file}: there is no lock file to keep; make one with --save")
    with working(f"designing {model.name} for {engine}"):
        found = keyplan.design(model, engine, keep=locked if keep else None)
        document = keyplan.document(model, found)
    if locked is not None:
        document["against_lock"] = keyplan.difference(model, locked, found)
    click.echo(as_json(document) if form == "json" else design_text(document))
    if locked is not None and form == "text":
        click.echo(difference_text(document["against_lock"]))
    if save:
        click.echo(f"wrote {keyplan.save_lock(model, found)}", err=True)
    warned = any(finding.severity != "note" for finding in found.findings)
    return 1 if found.unserved or (strict and warned) else 0
