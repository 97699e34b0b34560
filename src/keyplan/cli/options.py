"""What several commands share: arguments, options, reading files and `-`, and progress on a terminal."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import click

import keyplan

F = TypeVar("F", bound=Callable[..., Any])

PATIENCE = 2.0
"""Seconds of silence before progress is shown."""

model_argument = click.argument("model_file", metavar="MODEL")
url_argument = click.argument("url", metavar="URL")
engine_option = click.option("--engine", required=True, metavar="NAME", help="The engine to design for.")
format_option = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print it."
)
yes_option = click.option("--yes", is_flag=True, help="Do it; without it, only say what would be done.")


def read_model(name: str, *, warn: bool = True, engine: str | None = None, url: str | None = None) -> keyplan.Model:
    """The model in a file, or on stdin for `-`; its warnings go to stderr, unless the output has them.

    An `engine` or `url` that there is none for is told together with what is wrong with the model.
    """
    try:
        model = keyplan.parse_model(sys.stdin.buffer.read(), file="stdin") if name == "-" else keyplan.load_model(name)
    except keyplan.ModelError as error:
        unknown = _unknown_engine(engine, url)
        if unknown:
            raise keyplan.KeyplanError(f"{error}\n{unknown}") from None
        raise
    for warning in model.warnings if warn else ():
        click.echo(f"{model.file}: {warning}", err=True)
    return model


def _unknown_engine(engine: str | None, url: str | None) -> str:
    """What is wrong with the name of an engine, or with the URL of a server, if anything is."""
    if engine is not None and engine not in keyplan.engine_names():
        return keyplan.errors.no_engine(engine, keyplan.engine_names())
    if url is not None:
        try:
            keyplan.engine_of(url)
        except keyplan.UnknownEngineError as error:
            return str(error)
    return ""


def settled(model: keyplan.Model, engine: str) -> keyplan.Design:
    """The design that is in use: that of the lock file, or the cheapest one if there is none."""
    locked = keyplan.load_lock(model, engine)
    if locked is not None:
        return locked
    with working(f"designing {model.name} for {engine}"):
        return keyplan.design(model, engine)


def read_text(name: str) -> str:
    """A file, or stdin for `-`."""
    return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")


def write_text(name: str | Path, text: str, *, new: bool = False) -> None:
    """Writes a file, which is complete then, or as it was before; with `new` one that is there is a FileExistsError."""
    path = Path(name)
    try:
        if not new and path.exists() and not path.is_file() and not path.is_dir():
            path.write_text(text, encoding="utf-8")  # a pipe or a terminal, beside which there is nothing to be written
            return
        _replace(path, text, new)
    except OSError as error:
        # A write that fails does not know the name, and that of the file beside is nothing to be told of.
        raise OSError(error.errno, error.strerror, str(name)) from error


def _replace(path: Path, text: str, new: bool) -> None:
    if new:
        path.open("x").close()  # nobody else makes it meanwhile
    target = path.resolve()  # a link stays one
    partial = target.with_name(target.name + ".partial")
    try:
        if not new and target.exists():
            target.open("a").close()  # one that may not be written, or a folder, is not replaced either
        partial.write_text(text, encoding="utf-8")
        if target.exists():
            shutil.copymode(target, partial)
        partial.replace(target)
    except BaseException:
        for made in (partial, target) if new else (partial,):
            with suppress(OSError):
                made.unlink()
        raise


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Shows on a terminal that something takes long, after a while; call the value to say how far it is."""
    if not sys.stderr.isatty():
        yield lambda detail: None
        return
    done = threading.Event()
    details = [""]
    began = time.monotonic()

    def show() -> None:
        while not done.wait(0.5):
            seconds = time.monotonic() - began
            if seconds > PATIENCE:
                print(f"\r\033[K{what}{details[0]}, {seconds:.0f} s", end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()

    def say(detail: str) -> None:
        details[0] = f": {detail}"

    try:
        yield say
    finally:
        done.set()
        thread.join()
        if time.monotonic() - began > PATIENCE:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
