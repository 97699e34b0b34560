"""`keyplan calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import keyplan
from keyplan.cli.options import format_option, read_model, working, yes_option
from keyplan.cli.output import as_json
from keyplan.cli.tables import table


@click.command()
@click.argument("arguments", nargs=-1, metavar="[MODEL] URL")
@click.option("--save", is_flag=True, help="Write it to a file beside the model, which 'targets' can name.")
@yes_option
@format_option
def command(arguments: tuple[str, ...], save: bool, yes: bool, form: str) -> int:
    """Measure what work costs on a server.

    It fills structures of its own on the server and removes them again, so use one that is not busy. What it prints
    goes under 'targets' of a model; with --save it goes to a file beside the model, which 'targets' names.

    \b
    Example:
      keyplan calibrate mongodb://127.0.0.1:27017/scratch --yes
      keyplan calibrate shop.yaml sqlite:scratch.db --save --yes
    """
    if not 1 <= len(arguments) <= 2:
        raise click.UsageError("give a URL, or a model and a URL")
    *files, url = arguments
    if not files and Path(url).is_file():
        raise click.UsageError(f"'{url}' is a file; give the URL of a server after it")
    if save and not files:
        raise click.UsageError("--save writes beside a model; give the model before the URL")
    model = read_model(files[0]) if files else None
    engine = keyplan.engine_of(url)  # what cannot be measured is not promised either
    if save and not (model is not None and Path(model.file).is_file()):
        raise click.UsageError("--save writes beside a model; put the model in a file")
    if not yes:
        told = "would fill structures of its own there, measure for up to a minute, and remove them again"
        click.echo(as_json({"engine": engine, "measured": None, "targets": {}}) if form == "json" else told)
        click.echo("nothing was done; add --yes to do it", err=True)
        return 0
    with working("measuring") as say:
        found = keyplan.calibrate(url, progress=lambda share: say(f"{share:.0%}"))
    saved = keyplan.save_calibration(model, found) if save and model is not None else None
    if form == "json":
        click.echo(as_json(_plain(found)))
    else:
        _tell(found)
    if saved is not None:
        click.echo(
            f"saved to {saved}; 'targets: {{ {found.engine}: {{ calibration: {saved.name} }} }}' uses it", err=True
        )
    return 0


def _plain(found: keyplan.Calibration) -> dict[str, Any]:
    told: dict[str, Any] = {"engine": found.engine, "measured": found.measured, "targets": {found.engine: found.target}}
    if found.samples:
        told |= {"r2": found.r2, "median_error": found.median_error}
        told["samples"] = [
            {"name": each.name, "micros": each.micros, "predicted": found.predicted(each)} for each in found.samples
        ]
    return told


def _tell(found: keyplan.Calibration) -> None:
    """YAML, with what else there is to say as comments."""
    click.echo(f"# {found.measured}")
    if found.samples:
        rows = []
        for sample in found.samples:
            guess = found.predicted(sample)
            rows.append([sample.name, f"{sample.micros:,.1f}", f"{guess:,.1f}", f"{guess / sample.micros - 1:+.0%}"])
        for line in table(["experiment", "measured", "predicted", "error"], rows, right="measured predicted error"):
            click.echo(f"# {line}".rstrip())
        click.echo(f"# R2 {found.r2:.3f}, median error {found.median_error:.1%}")
    click.echo("targets:")
    click.echo(f"  {found.engine}:")
    for line in found.text.splitlines():
        click.echo(f"    {line}")
