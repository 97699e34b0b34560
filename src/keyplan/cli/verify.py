"""`keyplan verify`."""

from __future__ import annotations

from dataclasses import asdict

import click

import keyplan
from keyplan.cli.options import format_option, model_argument, read_model, url_argument, working, yes_option
from keyplan.cli.output import as_json
from keyplan.cli.tables import several, table


@click.command()
@model_argument
@url_argument
@click.option(
    "--repair",
    is_flag=True,
    help="Make indexes that are missing or stale, and every view equal to its home rows; wants --yes.",
)
@yes_option
@format_option
def command(model_file: str, url: str, repair: bool, yes: bool, form: str) -> int:
    """Check structures against the design, entries against rows.

    Exit 1 if something is missing, wrong or too much. A repair should run while nobody writes.

    \b
    Example:
      keyplan verify shop.yaml sqlite:shop.db
      keyplan verify shop.yaml sqlite:shop.db --repair --yes
    """
    model = read_model(model_file, url=url)
    with working(f"verifying {model.name}") as say, keyplan.open(model, url, create=False) as store:
        found = store.verify(repair=repair and yes, progress=lambda rows: say(f"{rows:,} rows"))
    if form == "json":
        click.echo(as_json({"ok": found.ok, **asdict(found)}))
    else:
        columns = ("entries", "missing", "wrong", "extra")
        rows = [[name, *(f"{getattr(view, each):,}" for each in columns)] for name, view in found.views.items()]
        # Without a comparison there are no figures, and zeros would be read as such.
        for line in table(["view", *columns], rows, right=" ".join(columns)) if found.compared else ():
            click.echo(line)
        for fault in found.structures:
            click.echo(fault if repair and yes else f"{fault}; --repair makes it again")
        for problem in found.problems:
            click.echo(problem)
        click.echo(f"\n{_outcome(found, repaired=repair and yes)}")
    if repair and not yes and not found.ok:
        click.echo("nothing was repaired; add --yes to do it", err=True)
    return 0 if found.ok else 1


def _outcome(found: keyplan.Verification, *, repaired: bool) -> str:
    if not found.compared:
        return "nothing was compared, because structures are missing"
    rows = several(found.rows, "row")
    if found.ok:
        return f"{rows}: every view is what its rows imply"
    rows += f", and {several(found.unreadable, 'entry', 'entries')} that cannot be read" if found.unreadable else ""
    wrong = any(one.missing or one.wrong or one.extra for one in found.views.values())
    if repaired and (wrong or found.structures):
        entries = several(found.repaired - len(found.structures), "entry", "entries")
        parts = [several(len(found.structures), "structure")] if found.structures else []
        return f"{rows}: repaired " + " and ".join([*parts, *([entries] if wrong else [])])
    if wrong:
        return f"{rows}: views differ from their rows"
    if found.structures:
        return f"{rows}: every view is what its rows imply, but structures are not as designed"
    return f"{rows}: every view is what the others imply"
