"""Designs with a view for every reference, of the rows that point at nothing by it, wherever there can be one.

A designer keeps such a view where nothing else finds these rows as cheaply. What it means does not depend on that.
"""

from __future__ import annotations

from dataclasses import replace

from keyplan.engines import get_engine
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.pattern import Condition, Outer, Path
from keyplan.plan.dangling import absence, dangling_role
from keyplan.plan.design import Design
from keyplan.plan.steps import Attach, Extend, Node, Search
from keyplan.plan.view import Part, View


def noting(model: Model, design: Design) -> Design:
    """The design with these views, and creates that look in them."""
    engine = get_engine(design.engine)
    kind = next(kind for kind in engine.kinds.values() if not kind.kept_by_engine)
    views = dict(design.views)
    dangling: dict[str, Node] = dict(design.dangling)
    for entity in model.entities.values():
        for role in entity.roles.values():
            where = None if role.many else absence(model, entity.name, role.name)
            if where is None or f"{entity.name}.{role.name}" in dangling:
                continue
            name = f"{entity.name} noted by {role.name}"
            parts = tuple(Part(column) for column in role.columns)
            rest = tuple(Part(column) for column in entity.key if column not in role.columns)
            held = {*role.columns, *entity.key, EXPIRES}
            holds = tuple(column for column in entity.columns if column in held)
            partition, sort = (parts, rest) if kind.partitioned else ((), (*parts, *rest))
            view = View(name, entity.name, kind.name, partition, sort, holds, where=(where,))
            assert dangling_role(model, view) is role
            views[name] = view
            pairs = zip(role.columns, model.entities[role.entity].key, strict=True)
            links = tuple(Condition(Path((), here), "=", (Outer(there),)) for here, there in pairs)
            search = Search(name, given=links, takes=holds)
            dangling[f"{entity.name}.{role.name}"] = Extend(search, (Attach("", design.rows[entity.name]),))
    structures = engine.pack(model, tuple(views.values()), design.settings)
    return replace(design, views=views, structures=structures, dangling=dangling)
