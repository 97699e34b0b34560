"""Edits: what a write does to single entries of views, in the engine-free form that codecs turn into requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class Test:
    """A condition on an entry, checked by the engine in the moment of the write.

    op is one of = != < <= > >= between in begins_with contains present missing; `value` is canonical (a tuple for
    between and in). Comparisons with a missing value are false; `=` with value None means missing.
    """

    __test__ = False  # not a pytest class
    path: str
    op: str
    value: object = None
    cut: str | None = None


@dataclass(frozen=True)
class Edit:
    """One entry put, patched, deleted, added to, or merely checked."""

    view: str
    do: str
    """put (the whole entry), patch (some paths), delete, add (a view with measures: created with zeros if absent),
    check (nothing changes, but the conditions must hold)."""
    key: tuple[object, ...]
    """The values of all parts of the view's key; for an embed, those of the view, then those of the embed's sort."""
    at: tuple[str, ...] = ()
    values: Mapping[str, object] = field(default_factory=dict)
    """put: the whole entry; patch: the new values of the paths that change (None clears)."""
    adds: Mapping[str, object] = field(default_factory=dict)
    """patch and add: what is added to paths; missing counts as 0. A sum outside the type's range fails the write."""
    entry: Mapping[str, object] | None = None
    """patch: the whole new entry where it is known; engines that compose index keys need it."""
    expect: str = "any"
    """present, absent or any. With `alive_at`, an entry whose `$expires` is at or before it counts as absent."""
    tests: tuple[Test, ...] = ()
    alive_at: datetime | None = None
    returning: bool = False
    """The entry after the edit (delete: before it) is wanted in the outcome."""
    row: int = 0
    """The number of the row change it belongs to, for error messages."""
