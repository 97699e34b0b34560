"""`keyplan`: the group of commands, and what becomes of every error.

Commands are modules of this package, imported when they are run; `--help` is answered from the table below.
Exit codes: 0 fine, 1 errors found or patterns unserved (warnings only with `--strict`), 2 failure.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

import keyplan

COMMANDS = {
    "init": "Print a commented starter model.",
    "schema": "Print the JSON Schema of model files, for editors.",
    "design": "Find the cheapest schema that serves every pattern of a model.",
    "explain": "Say how a pattern or write runs, or why a structure is there.",
    "emit": "Write a design as DDL, templates or client code.",
    "apply": "Create what a design needs on a server.",
    "load": "Load rows, from a file or generated.",
    "run": "Run one pattern or write by name.",
    "verify": "Check structures against the design, entries against rows.",
    "calibrate": "Measure what work costs on a server.",
}
"""In the order of use; each line equals the first line of the command's own help."""

INTERRUPTED = "interrupted; what was done so far is kept"


class _ReaderGoneError(Exception):
    """Nobody reads the output any more; click would make an exit code of 1 of it, as if something had failed."""


class Commands(click.Group):
    """A group whose commands are imported one at a time, and which turns errors into lines and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"keyplan.cli.{cmd_name}").command
        if not any(param.name == "debug" for param in command.params):
            command.params.append(_debug_option())
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = keyplan.errors.nearest(args[0], list(COMMANDS)) or "; see 'keyplan --help'"
            raise click.UsageError(f"no command '{args[0]}'{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        try:
            return super().make_context(*given, **more)
        except KeyboardInterrupt:
            raise click.ClickException(INTERRUPTED) from None
        except BrokenPipeError:  # of help
            raise _ReaderGoneError from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            # Click would add an empty line of its own.
            raise click.ClickException(INTERRUPTED) from None
        except BrokenPipeError:
            raise _ReaderGoneError from None

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Runs a command line and exits; click's own handling of errors is not used."""
        extra |= {"standalone_mode": False, "prog_name": "keyplan"}
        arguments = list(sys.argv[1:] if args is None else args) or ["--help"]
        try:
            code = super().main(arguments, *rest, **extra)
            sys.stdout.flush()
        except (BrokenPipeError, _ReaderGoneError):
            # The reader (head, less) has gone; Python must not complain again when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        except (KeyboardInterrupt, click.Abort):  # between the two above
            _complain([f"keyplan: {INTERRUPTED}"])
            code = 2
        except Exception as error:
            if "--debug" in arguments:
                _complain(_traceback(error))
            else:
                if isinstance(error.__cause__, KeyboardInterrupt):
                    # It came while a class was being made, of which Python makes an error of its own.
                    error = click.ClickException(INTERRUPTED)
                _complain(_lines(error))
            code = 2
        sys.exit(code if isinstance(code, int) else 0)


def _traceback(error: Exception) -> list[str]:
    """What Python would print of an error; left to itself, it would end with the exit code of something found."""
    from traceback import format_exception  # here, since nearly every command does without it

    return "".join(format_exception(error)).splitlines()


def _lines(error: Exception) -> list[str]:
    """What the user is told about an error: a line per problem."""
    if isinstance(error, keyplan.KeyplanError):
        return str(error).splitlines()
    if isinstance(error, click.NoSuchOption):
        command = error.ctx.command_path if error.ctx else "keyplan"
        hint = keyplan.errors.nearest(error.option_name, error.possibilities or ())
        return [f"{command}: no such option '{error.option_name}'" + (hint or f"; see '{command} --help'")]
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "keyplan"
        text = _sentence(error.format_message())
        return [f"{command}: {text}" if ";" in text else f"{command}: {text}; see '{command} --help'"]
    if isinstance(error, click.ClickException):
        return [f"keyplan: {_sentence(error.format_message())}"]
    if isinstance(error, OSError):
        return [f"{error.filename or 'keyplan'}: {keyplan.errors.trouble_with(error)}"]
    what = " ".join(f"{type(error).__name__} {error}".split())
    return [f"keyplan: internal error, {what}; run it again with --debug and report what it says"]


def _sentence(text: str) -> str:
    """Click's messages in our form: lower case, no final period."""
    text = " ".join(text.split()).rstrip(".")
    return text[:1].lower() + text[1:]


def _complain(lines: Sequence[str]) -> None:
    try:
        for line in lines:
            click.echo(line, err=True)
    except OSError:
        # Nobody can be told, but the exit code still can; Python must not try again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _debug_option() -> click.Option:
    return click.Option(["--debug"], is_flag=True, expose_value=False, help="Show the traceback of an error.")


@click.group(
    "keyplan",
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    params=[_debug_option()],
)
@click.version_option(keyplan.__version__, message="keyplan %(version)s")
def main() -> None:
    """Write access patterns once; get the cheapest schema that serves them all, proven and running."""
