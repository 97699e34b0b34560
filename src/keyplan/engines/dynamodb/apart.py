"""Views that share a partition key share what a partition takes: those that are too hot together get different ones.

`pack` gathers views under the tag of whose rows they are (`SHOP#…`), of several entities in one table or index. No plan
reads two views by one request, so that this is for people who read the keys, and nothing depends on it. Where what is
read or written of all of them under one key value would be too much, some have a tag with a number (`SHOP.2#…`), which
makes other keys of it and costs nothing. What one view takes alone is not said here: it has as many shards as it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from keyplan.engines.work import Share
from keyplan.model.model import Model
from keyplan.plan.design import Finding, Structure
from keyplan.plan.view import View

ROOM = 1e-5
"""By so much sums may be above one."""
KEPT = "design without keeping them: each then has keys of its own"
Place = tuple[str, bool]
"""A tag, and whether keys go on with the number of a shard or copy."""


def kept_apart(
    model: Model,
    views: Mapping[str, View],
    structures: Sequence[Structure],
    shares: Mapping[str, Share],
    before: Mapping[str, tuple[Structure, str]],
) -> tuple[tuple[Structure, ...], tuple[Finding, ...]]:
    """The structures, with tags under which no partition is too hot by several views together.

    Views that are kept from `before` keep their tags, where their items lie; if they are too hot, that is told.
    """
    found: list[Structure] = []
    told: list[Finding] = []
    tags: dict[str, str] = {}
    for structure in structures:
        if structure.kind == "lsi":  # it has the partitions of its items
            mine = {name: tags[views[name].base] for name in structure.views}
        elif structure.settings.get("native"):
            mine = {name: _tag(structure, name) for name in structure.views}
        else:
            over = dict(_with_local(views, structure, shares))
            mine = _spread(model, {name: views[name] for name in structure.views}, structure, over, before)
            told += _too_hot(views, mine, over)
        tags |= mine
        found.append(_tagged(structure, mine))
    return tuple(found), tuple(told)


def _tag(structure: Structure, view: str) -> str:
    tags: Any = structure.settings["tags"]
    return str(tags[view]["partition"])


def _tagged(structure: Structure, tags: Mapping[str, str]) -> Structure:
    known: Any = structure.settings["tags"]
    changed = {name: {**one, "partition": tags[name]} for name, one in known.items()}
    return replace(structure, settings={**structure.settings, "tags": changed})


def _with_local(
    views: Mapping[str, View], structure: Structure, shares: Mapping[str, Share]
) -> Iterator[tuple[str, Share]]:
    """What each view takes, with the local indexes over it, whose entries lie beside its items."""
    for name in structure.views:
        local = [one.name for one in views.values() if one.kind == "lsi" and one.base == name]
        all_of = [shares.get(one, Share()) for one in (name, *local)]
        yield name, Share(sum(one.reads for one in all_of), sum(one.writes for one in all_of))


def _spread(
    model: Model,
    views: Mapping[str, View],
    structure: Structure,
    shares: Mapping[str, Share],
    before: Mapping[str, tuple[Structure, str]],
) -> dict[str, str]:
    """The tags of the views of one table or index. Those that are kept come first, then rows under their own key, which
    people look for there, then other whole rows, which are hardest to move when loads change."""
    taken: dict[Place, Share] = {}
    found: dict[str, str] = {}
    before = {name: one for name, one in before.items() if one[0].kind == structure.kind}

    def rank(name: str) -> tuple[bool, bool, bool]:
        view, entity = views[name], model.entities[views[name].entity]
        own = {part.path for part in view.partition if part.ways == 1} == set(entity.key)
        whole = not (view.where or view.measures or view.unique) and set(entity.stored) <= set(view.holds)
        return name not in before, not (own and whole), not whole

    for name in sorted(views, key=rank):
        plain = _tag(structure, name)
        tag, number, sharded = plain, 1, _is_sharded(views[name])
        if name in before:
            tag = _tag(*before[name])
        else:
            while not _fits(taken.get((tag, sharded)), shares[name]):
                number += 1
                tag = f"{plain}.{number}"
        there = taken.get((tag, sharded), Share())
        taken[tag, sharded] = Share(there.reads + shares[name].reads, there.writes + shares[name].writes)
        found[name] = tag
    return found


def _is_sharded(view: View) -> bool:
    return any(part.ways > 1 for part in view.partition)


def _too_hot(views: Mapping[str, View], tags: Mapping[str, str], shares: Mapping[str, Share]) -> Iterator[Finding]:
    """A warning per place at which views are too hot together, and none of them alone."""
    places: dict[Place, list[str]] = {}
    for name, tag in tags.items():
        places.setdefault((tag, _is_sharded(views[name])), []).append(name)
    for (tag, _), names in places.items():
        for what, each in (
            ("read", {name: shares[name].reads for name in names}),
            ("written", {name: shares[name].writes for name in names}),
        ):
            some = sorted(name for name, share in each.items() if share)
            if sum(each.values()) > 1 + ROOM >= max(each.values()):
                listed = ", ".join(f"'{name}'" for name in some)
                text = (
                    f"the hottest '{tag}' key, which {listed} share, is {what} {sum(each.values()):.1f} times as often "
                )
                yield Finding("warning", f"entities.{views[some[0]].entity}", f"{text}as it can be", KEPT)


def _fits(there: Share | None, more: Share) -> bool:
    """Whether a view can share a place with what is there; what takes nothing of it always can."""
    if there is None:
        return True
    pairs = ((there.reads, more.reads), (there.writes, more.writes))
    return all(not one or not other or one + other <= 1 + ROOM for one, other in pairs)
