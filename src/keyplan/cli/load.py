"""`keyplan load`."""

from __future__ import annotations

import sys
from bisect import bisect_left
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any, BinaryIO

import click

import keyplan
from keyplan.cli.options import format_option, model_argument, read_model, url_argument, working
from keyplan.cli.output import as_json
from keyplan.cli.tables import several

Row = tuple[str, dict[str, Any]]


@click.command()
@model_argument
@url_argument
@click.argument("file", required=False, metavar="[FILE]")
@click.option("--generate", is_flag=True, help="Make rows up, with the statistics of the model.")
@click.option("--scale", type=float, default=0.001, show_default=True, help="The share of the model's counts.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed makes other rows.")
@click.option("--until", metavar="DATE", help="The day on which made-up rows end; 2025-01-01 if not given.")
@click.option("--done", type=click.IntRange(0), default=0, help="Leave out so many rows: an earlier load wrote them.")
@format_option
def command(
    model_file: str,
    url: str,
    file: str | None,
    generate: bool,
    scale: float,
    seed: int,
    until: str | None,
    done: int,
    form: str,
) -> None:
    """Load rows, from a file or generated.

    FILE (or - for stdin) has a JSON array per line: the entity, then the row. A row that is there already is replaced.
    Where a row leaves out its key, the key is worked out from the rows: the same file loaded again is the same rows.

    \b
    Example:
      keyplan load shop.yaml sqlite:shop.db --generate --scale 0.001
      echo '["Product", {"sku": "A1", "name": "Lamp", …}]' | keyplan load shop.yaml sqlite:shop.db -
    """
    if generate == (file is not None):
        raise click.UsageError("give a file of rows, or --generate, and not both")
    model = read_model(model_file, url=url)
    safe = done

    def report(count: int) -> None:
        nonlocal safe
        safe = count
        say(f"{count:,} rows")

    with working(f"loading {model.name}") as say, keyplan.open(model, url, create=False) as store:
        lines = _Lines(model, file or "-")
        rows: Iterable[Row] = lines
        if generate:
            rows = keyplan.generate(model, scale=scale, seed=seed, now=_midnight(until))
        try:
            loaded = store.load(rows, progress=report, done=done)
        except keyplan.KeyplanError as error:
            named = error.row is not None and not generate
            if not named and safe == done:
                raise
            what = lines.placed(error) if named else str(error)
            hint = f"; {safe} rows are loaded, and --done {safe} goes on from there" if safe > done else ""
            raise type(error)(f"{what}{hint}") from None if named else error
        except KeyboardInterrupt:
            raise click.ClickException(
                f"interrupted after {safe} rows; run it again with --done {safe} to go on from there"
            ) from None
    click.echo(as_json({"loaded": loaded}) if form == "json" else f"loaded {several(loaded, 'row')}")


def _midnight(day: str | None) -> datetime | None:
    try:
        return None if day is None else datetime.combine(date.fromisoformat(day), time(), UTC)
    except ValueError:
        raise click.UsageError(f"'{day}' is not a day; write it as 2025-01-31") from None


class _Lines:
    """The rows of a file with a JSON array per line; knows in which line each of them stands."""

    def __init__(self, model: keyplan.Model, name: str) -> None:
        self.model = model
        self.file = name
        self.name = "stdin" if name == "-" else name
        self.empty: list[int] = []
        """How many rows come before each line without one."""

    def place(self, row: int) -> str:
        """Where a row stands, counted from 1."""
        return f"{self.name}:{row + bisect_left(self.empty, row)}"

    def placed(self, error: keyplan.KeyplanError) -> str:
        """What an error says of a row, with the line that it is about."""
        assert error.row is not None
        return f"{self.place(error.row)}: {str(error).removeprefix(f'load: row {error.row}: ')}"

    def __iter__(self) -> Iterator[Row]:
        if self.file == "-":
            yield from self.rows(sys.stdin.buffer)
            return
        with Path(self.file).open("rb") as file:
            yield from self.rows(file)

    def rows(self, file: BinaryIO) -> Iterator[Row]:
        count = 0
        for number, data in enumerate(file, 1):
            line = data.removeprefix(BOM_UTF8) if number == 1 else data
            if not line.strip():
                self.empty.append(count)
                continue
            try:
                row = self.row(line.decode())
            except UnicodeDecodeError:
                raise keyplan.ArgumentError(
                    f"{self.name}:{number}: the rows are not UTF-8; save them in that encoding"
                ) from None
            except ValueError as error:  # an ArgumentError is one
                raise keyplan.ArgumentError(f"{self.name}:{number}: {error}") from None
            count += 1
            yield row

    def row(self, text: str) -> Row:
        pair = keyplan.parse_json(text)
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], dict)):
            raise ValueError('expected ["Entity", {row}]; give the name of an entity, and the fields of a row by name')
        return pair[0], keyplan.row_from_json(self.model, pair[0], pair[1])
