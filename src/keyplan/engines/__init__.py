"""The registry: which engines there are, loaded only when asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from keyplan.errors import ArgumentError, UnknownEngineError, nearest, no_engine

if TYPE_CHECKING:
    from keyplan.engines.base import Engine

BUILTIN = ("dynamodb", "mongodb", "sqlite")


def engine_names() -> tuple[str, ...]:
    """The names of all engines."""
    return BUILTIN


def get_engine(name: str) -> Engine:
    """The engine of that name; its driver is not imported yet."""
    if not isinstance(name, str):
        raise ArgumentError(f"expected the name of an engine such as {BUILTIN[-1]}, got {type(name).__name__}")
    if name not in BUILTIN:
        raise UnknownEngineError(no_engine(name, BUILTIN))
    engine: Engine = import_module(f"keyplan.engines.{name}").ENGINE
    return engine


def engine_for_url(url: str) -> Engine:
    """The engine that a URL's scheme belongs to."""
    if not isinstance(url, str):
        raise ArgumentError(f"expected a URL such as {BUILTIN[-1]}:shop.db, got {type(url).__name__}")
    scheme, colon, _ = url.partition(":")
    scheme = scheme.lower()
    if not colon:
        raise UnknownEngineError(f"'{url}' is no URL; say which engine it is on, as in {BUILTIN[-1]}:{url}")
    # Usually the scheme is the engine's name; then no other engine is loaded.
    for name in sorted(BUILTIN, key=lambda name: name != scheme):
        engine = get_engine(name)
        if scheme in engine.schemes:
            return engine
    hint = nearest(scheme, BUILTIN) or f"; URLs begin with one of {', '.join(BUILTIN)}"
    raise UnknownEngineError(f"no engine for '{scheme}:'{hint}")
