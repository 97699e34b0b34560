"""Which entities can be compared with their rows in one pass: those that are worked out from nothing that is mended in
the same one."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from keyplan.plan.steps import Node
from keyplan.plan.walk import searches
from keyplan.store.core import Core

Stage = list[str]


def stages(core: Core, views: Collection[str]) -> list[Stage]:
    """The entities with places among these views, in the passes that it takes.

    What an entity is worked out from are the views by which rows behind its references, and rows that it has values
    computed of, are found. One that is worked out from itself comes twice: the second time by what the first has made.
    """
    owners: dict[str, set[str]] = {}
    for name, places in core.places.of.items():
        for place in places:
            owners.setdefault(place.view.name, set()).add(name)
    concerned = [name for name, places in core.places.of.items() if any(one.view.name in views for one in places)]
    needs = {name: {owner for view in _read(core, name, views) for owner in owners[view]} for name in concerned}
    found: dict[str, int] = {}
    begun: set[str] = set()

    def level(name: str) -> int:
        if name not in found and name not in begun:
            begun.add(name)
            found[name] = max(
                (level(one) + 1 for one in sorted(needs[name]) if one in needs and one != name), default=0
            )
        return found.get(name, -1)  # in a circle, somebody has to be first

    last = max((level(name) for name in concerned), default=-1)
    passes = [[name for name in concerned if found[name] == number] for number in range(last + 1)]
    return [one for some in passes for one in (some, [name for name in some if name in needs[name]]) if one]


def _read(core: Core, name: str, views: Collection[str]) -> Iterator[str]:
    """The views among these that say what the entries of an entity have to be."""
    entities, design, places = core.model.entities, core.design, core.places
    for kept in places.kept[name]:
        yield from _views(core, design.dependents.get(f"{kept.child}.{kept.role}"), views)
    for place in places.of[name]:
        for path in place.copies if place.view.name in views else ():
            here = name
            for role in path.roles:
                here = entities[here].roles[role].entity
                yield from _views(core, design.rows.get(here), views)
            if any(kept.column == path.column for kept in places.kept[here]):
                home = places.home(here).view.name
                yield from [home] if home in views else []


def _views(core: Core, node: Node | None, views: Collection[str]) -> Iterator[str]:
    homes = {view for view, _ in core.design.homes.values()}
    for search in searches(node) if node is not None else ():
        base = core.design.views[search.view].base
        # The own values of rows are right in their homes, whatever these lack.
        if (base or search.view) in views and (base or search.view not in homes):
            yield base or search.view
