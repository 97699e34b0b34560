"""Where the rows of each entity may live among some views: its homes, and embeds that hold its rows whole.

Whatever is kept over other views asks for them, each index by itself: so they are found once for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from keyplan.design.candidates.match import child_view
from keyplan.engines.base import Kind
from keyplan.model.model import Model, path_of
from keyplan.plan.view import COPIES, Embed, Part, View

Base = tuple[str, tuple[str, ...]]
"""A view, and the roles that lead to an embed inside it."""


def is_home(model: Model, kinds: Mapping[str, Kind], view: View) -> bool:
    """A view kept by us that holds every row whole, under a key that contains the entity's."""
    here = model.entities[view.entity]
    if kinds[view.kind].kept_by_engine or view.where or view.measures or view.unique:
        return False
    if len(view.holds) < len(here.stored):
        return False
    paths = set()
    for part in view.parts:
        if part.cut == COPIES:
            return False  # copies are for reading; a home is where a row is written
        if part.ways > 1:
            continue
        path = path_of(part.path, model, view.entity)
        column = model.column(view.entity, path)
        if path.roles or part.cut in ("each", "words") or column.optional or column.computed is not None:
            return False
        if part.cut is None:
            paths.add(part.path)
    return set(here.stored) <= set(view.holds) and set(here.key) <= paths


def homes_inside(model: Model, view: View) -> Iterator[str]:
    """The entities whose rows an embed of the view holds whole."""
    for embed in view.embeds:
        role = model.entities[view.entity].roles[embed.role]
        if embed.limit is None and set(model.entities[role.entity].stored) <= set(embed.holds):
            yield role.entity


@dataclass(frozen=True)
class Home:
    """A view that has the rows of an entity as entries, or has them inside in an embed."""

    view: View
    embed: Embed | None
    partition: tuple[Part, ...]
    """What rows there have in common with those beside them."""
    holds: frozenset[str]
    """What is there of each row."""

    @property
    def base(self) -> Base:
        return (self.view.name, () if self.embed is None else (self.embed.role,))


class Homes:
    """The homes among some views, per entity in the order of the views."""

    def __init__(self, model: Model, kinds: Mapping[str, Kind], views: Iterable[View]) -> None:
        self.model = model
        self.kinds = kinds
        self.views: list[View] = list(views)
        self._of: dict[str, list[Home]] = {}
        self._sharing: dict[tuple[str, tuple[Part, ...]], list[Home]] = {}
        for view in self.views:
            if is_home(model, kinds, view):
                self._add(view.entity, Home(view, None, view.partition, frozenset(view.holds)))
            inside = set(homes_inside(model, view)) if view.embeds else ()
            for embed in view.embeds:
                if embed.entity in inside:
                    partition = child_view(model, view, (embed.role,)).partition
                    self._add(embed.entity, Home(view, embed, partition, frozenset(embed.holds)))

    def _add(self, entity: str, home: Home) -> None:
        self._of.setdefault(entity, []).append(home)
        # Rows that are alone in their partition have no other order there, and those that are inside another row of
        # their own entity have that as their home.
        if home.view.sort if home.embed is None else home.view.entity != entity:
            self._sharing.setdefault((entity, home.partition), []).append(home)

    def of(self, entity: str) -> Sequence[Home]:
        """All homes of an entity."""
        return self._of.get(entity, ())

    def sharing(self, entity: str, partition: tuple[Part, ...]) -> Sequence[Home]:
        """Those in which rows share such a partition, and have an order in it."""
        return self._sharing.get((entity, partition), ())

    def partitions(self, entity: str) -> list[tuple[Part, ...]]:
        """The partitions that rows of an entity share in one of its homes."""
        return [partition for name, partition in self._sharing if name == entity]
