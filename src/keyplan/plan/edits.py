"""Edits: what a write does to single entries of views, in the engine-free form that codecs turn into requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    """One entry put, patched, deleted, added to, or merely checked.

    In a subset (`Embed.limit`) a row may have no entry though it is there. A put stays if it is among the first ones
    when all edits of the request are done, a patch changes the entry if there is one, and each of them, and each
    delete, counts as a change of the subset. A check there has the key of the parent alone, and a test of `VERSION`.
    """

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
    fresh: Mapping[str, object] | None = None
    """patch: the whole entry, before what is added, that is made where there is none. One that is there keeps all of
    its values but those of `values` and `adds`; with `alive_at`, one that has expired is a refusal."""


@dataclass(frozen=True)
class Puts:
    """Many entries put into one view: what as many edits would do that put one each."""

    view: str
    holds: tuple[str, ...]
    rows: Sequence[Mapping[str, object]]
    """What each entry holds; there may be more in a row than the view holds."""
    keys: Sequence[tuple[object, ...]] | None = None
    """The key of each; None: its parts are plain values, which rows have under the paths of the parts, `parts`."""
    parts: tuple[str, ...] = ()
    at: tuple[str, ...] = ()
    expect: str = "any"
    """any or absent, of every entry."""
    alive_at: datetime | None = None

    def edits(self) -> Iterator[Edit]:
        """The same, one by one."""
        keys = self.keys
        if keys is None:
            keys = [tuple([row[path] for path in self.parts]) for row in self.rows]
        for number, (key, row) in enumerate(zip(keys, self.rows, strict=True)):
            entry = {path: row[path] for path in self.holds if path in row}
            yield Edit(self.view, "put", key, self.at, entry, expect=self.expect, alive_at=self.alive_at, row=number)
