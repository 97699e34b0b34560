"""Writes whose copies can only be found by reading everything, which a design should say aloud."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keyplan.design.needs.need import is_generated
from keyplan.model.model import Model, path_of
from keyplan.model.write import Write
from keyplan.plan.design import Finding
from keyplan.plan.steps import Node, Search
from keyplan.plan.view import View


def scanning_writes(
    model: Model, views: Mapping[str, View], dependents: Mapping[str, Node], dangling: Mapping[str, Node]
) -> Iterator[Finding]:
    """A warning per write of a row whose values are repeated in rows that nothing finds by their reference to it."""
    said: set[tuple[str, str]] = set()
    for view in views.values():
        for _, embed in view.nested():
            for text in embed.holds:
                path = path_of(text, model, embed.entity)
                if len(path.roles) != 1:
                    continue
                name = f"{embed.entity}.{path.roles[0]}"
                scans = _is_scan(dependents.get(name))
                scans_for_new = _is_scan(dangling.get(name, dependents.get(name)))
                target = model.entities[embed.entity].roles[path.roles[0]].entity
                for write in model.writes.values():
                    if not (scans_for_new if write.kind == "create" else scans):
                        continue
                    if (write.name, name) not in said and _changes(model, write, target, path.column):
                        said.add((write.name, name))
                        yield Finding(
                            "warning",
                            f"writes.{write.name}",
                            f"it reads every '{embed.entity}' to find those that repeat '{text}'",
                            f"lower the 'max' of what is written together, so that a view that finds them by "
                            f"'{path.roles[0]}' fits into a request, or do not read that value along",
                        )


def _is_scan(node: Node | None) -> bool:
    return isinstance(node, Search) and not node.given


def _changes(model: Model, write: Write, target: str, column: str) -> bool:
    """Whether rows may have to follow."""
    if write.entity != target:
        return False
    if write.kind == "create":
        return not is_generated(model, target)
    return write.kind in ("upsert", "delete", "change") or column in write.sets or column in write.adds
