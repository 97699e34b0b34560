"""`select` and `with`: the tree of what comes back, and of what is written along."""

from __future__ import annotations

from dataclasses import dataclass, field

from keyplan.model.entity import Entity, Role
from keyplan.model.pattern import Order, Select
from keyplan.model.scope import Scope
from keyplan.model.source import Items, Node, Table, Text
from keyplan.model.syntax import shown
from keyplan.model.validate import leads_to_unknown
from keyplan.model.write import Children

WITH_KEYS = ("order", "limit", "select", "with")
MOST_LEVELS = 10

_Branch = dict[str, "_Branch"]


@dataclass
class _Tree:
    """A Select that is still growing."""

    entity: str
    columns: dict[str, None] = field(default_factory=dict)
    roles: dict[str, _Tree] = field(default_factory=dict)
    order: tuple[Order, ...] = ()
    limit: int | None = None
    node: Node | None = None

    def frozen(self) -> Select:
        roles = {name: tree.frozen() for name, tree in self.roles.items()}
        return Select(tuple(self.columns), roles, self.order, self.limit)


class SelectReader(Scope):
    """Reads `select` and `with`."""

    def select(self, entity: str, select: Node | None, with_: Node | None) -> Select:
        """The tree of a find; without `select` it has all own fields."""
        top = _Tree(entity)
        self.grow(top, select, with_)
        self.check_bounds(top)
        return top.frozen()

    def grow(self, tree: _Tree, select: Node | None, with_: Node | None) -> None:
        if select is None:
            self.add_all(tree)
        else:
            texts = self.texts(select, "select")
            if not texts:
                self.report.add(select, "select is empty; name what to return, or leave it out for all fields")
            for text in texts:
                self.add(tree, text, expand=False)
        self.add_with(tree, with_)

    def add_all(self, tree: _Tree) -> None:
        for column in self.model.entities[tree.entity].columns.values():
            if not column.hidden:
                tree.columns[column.name] = None

    def add_with(self, tree: _Tree, node: Node | None) -> None:
        """`[user.name, items]`, `{items: {order: line, limit: 10}}`, or a list that holds both."""
        if node is None:
            return
        for item in node.items if isinstance(node, Items) else (node,):
            if isinstance(item, Text):
                if item.text.strip():
                    self.add(tree, Text(item.line, item.path, item.text.strip()), expand=True)
            elif isinstance(item, Table):
                for name, options in item.entries.items():
                    self.add_options(tree, item.key(name), options)
            else:
                self.report.add(item, "'with' is a list of paths, or a map of roles to their order and limit")

    def add(self, tree: _Tree, node: Text, *, expand: bool) -> _Tree | None:
        """Adds a path: its end is a field, or a role that brings all fields of its rows.

        A reference at the end is its key in `select` and a row in `with`.
        """
        names = node.text.split(".")
        for depth, name in enumerate(names):
            here = self.model.entities[tree.entity]
            role = here.roles.get(name)
            last = depth == len(names) - 1
            if last and not (role is not None and (role.many or expand)):
                columns = [column.name for column in here.columns.values() if name == column.field]
                if not columns:
                    hint = self.report.among(name, [*here.fields, *here.roles])
                    self.report.add(node, f"'{here.name}' has no '{shown(name)}'{hint}")
                tree.columns.update(dict.fromkeys(columns))
                return None
            if role is None:
                if not leads_to_unknown(self.report, self.model, here.name, name):
                    self.report.add(node, f"'{here.name}' has no role '{shown(name)}'{self.roles(here, name)}")
                return None
            if depth >= MOST_LEVELS:
                self.report.add(
                    node,
                    f"'{shown(node.text)}' goes more than {MOST_LEVELS} roles deep; ask for the rest apart",
                )
                return None
            tree = self.child(tree, role, node)
        self.add_all(tree)
        return tree

    def roles(self, entity: Entity, name: str) -> str:
        """What to write in place of a name that is no role."""
        if name in entity.fields:
            return "; it is a field, not a reference"
        return self.report.among(name, entity.roles) or "; remove it"

    def child(self, tree: _Tree, role: Role, node: Node) -> _Tree:
        if role.name not in tree.roles:
            tree.roles[role.name] = _Tree(role.entity, node=node)
        return tree.roles[role.name]

    def add_options(self, tree: _Tree, node: Text, options: Node) -> None:
        """`items: {order: line, limit: 10, select: [..], with: [..]}`."""
        if not isinstance(options, Table) and not (isinstance(options, Text) and options.is_empty):
            name = shown(node.text)
            self.report.add(options, f"what is taken of '{name}' has to be a map; write {name}: {{select: [..]}}")
            return
        entries = self.table(options, WITH_KEYS, f"'{shown(node.text)}'")
        role: Role | None = None
        for name in node.text.split("."):
            role = self.model.entities[tree.entity].roles.get(name)
            if role is None:
                if not leads_to_unknown(self.report, self.model, tree.entity, name):
                    hint = self.roles(self.model.entities[tree.entity], name)
                    if name in self.model.entities[tree.entity].fields:
                        hint += f"; list it beside the map: [{shown(node.text)}, {{..}}]"
                    self.report.add(node, f"'{tree.entity}' has no role '{shown(name)}'{hint}")
                return
            tree = self.child(tree, role, node)
        self.grow(tree, entries.get("select"), entries.get("with"))
        if ("limit" in entries or "order" in entries) and (role is None or not role.many or role.most == 1):
            self.report.add(options, f"'{node.text}' leads to one row, which takes no order and no limit; remove them")
            return
        tree.order = self.order(tree.entity, entries.get("order"))
        tree.limit = self.whole(entries.get("limit"), "limit")
        if tree.limit is not None and "order" not in entries:
            self.report.add(
                entries["limit"],
                f"the limit of '{node.text}' needs an order, else it is not said which rows stay; add one",
            )

    def check_bounds(self, tree: _Tree) -> None:
        for name, child in tree.roles.items():
            role = self.model.entities[tree.entity].roles[name]
            if role.many and role.most is None and child.limit is None and child.node is not None:
                self.report.add(
                    child.node,
                    f"'{name}' of '{tree.entity}' may hold any number of rows; give '{role.entity}.{role.field}' a "
                    f"max, or write {{{name}: {{order: .., limit: 10}}}}",
                )
            self.check_bounds(child)

    def children(self, entity: str, node: Node | None) -> Children:
        """The `with` of a write: a tree of to-many roles."""
        tree: _Branch = {}
        for text in [] if node is None else self.texts(node, "with"):
            here, branch = entity, tree
            for name in text.text.split("."):
                role = self.model.entities[here].roles.get(name)
                if role is None and (here, name) in self.report.ambiguous:
                    break
                if role is None or not role.many:
                    many = [other.name for other in self.model.entities[here].roles.values() if other.many]
                    hint = self.report.among(name, many) or "; name one with 'as' at a reference to it"
                    if role is not None:
                        hint = "; a reference leads to one row, which is written on its own"
                    self.report.add(text, f"'{here}' has no to-many role '{shown(name)}'{hint}")
                    break
                here, branch = role.entity, branch.setdefault(name, {})
        return tree
