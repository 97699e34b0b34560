"""`keyplan verify`."""

from __future__ import annotations

from dataclasses import asdict

import click

import keyplan
from keyplan.cli.options import format_option, model_argument, read_model, url_argument, working, yes_option
from keyplan.cli.output import as_json
from keyplan.cli.tables import table


@click.command()
@model_argument
@url_argument
@click.option("--repair", is_flag=True, help="Make every view equal to its home rows; wants --yes.")
@yes_option
@format_option
def command(model_file: str, url: str, repair: bool, yes: bool, form: str) -> int:
    """Check every copy and index entry against its home row.

    Exit 1 if something is missing, wrong or too much. A repair should run while nobody writes.

    \b
    Example:
      keyplan verify shop.yaml sqlite:shop.db
      keyplan verify shop.yaml sqlite:shop.db --repair --yes
    """
    model = read_model(model_file)
    with working(f"verifying {model.name}") as say, keyplan.open(model, url, create=False) as store:
        found = store.verify(repair=repair and yes, progress=lambda rows: say(f"{rows:,} rows"))
    if form == "json":
        click.echo(as_json({"ok": found.ok, **asdict(found)}))
    else:
        columns = ("entries", "missing", "wrong", "extra")
        rows = [[name, *(f"{getattr(view, each):,}" for each in columns)] for name, view in found.views.items()]
        for line in table(["view", *columns], rows, right=" ".join(columns)):
            click.echo(line)
        for problem in found.problems:
            click.echo(problem)
        if found.ok:
            click.echo(f"\n{found.rows:,} rows: every view is what its rows imply")
        elif repair and yes:
            click.echo(f"\n{found.rows:,} rows: repaired {found.repaired:,} entries")
        else:
            click.echo(f"\n{found.rows:,} rows: views differ from their rows")
    if repair and not yes and not found.ok:
        click.echo("nothing was repaired; add --yes to do it", err=True)
    return 0 if found.ok else 1
