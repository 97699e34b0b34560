"""Patterns: from nodes to reads whose every name, type and bound has been checked."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from keyplan import units
from keyplan.model.load_select import SelectReader
from keyplan.model.pattern import CUTS, Compute, Condition, Group, Order, Param, Path, Pattern, Select, Term
from keyplan.model.scope import Params
from keyplan.model.source import Items, Node, Table, Text
from keyplan.model.syntax import (
    Binary,
    Call,
    Expression,
    Name,
    Number,
    TextError,
    parse_aggregate,
    parse_value,
    shown,
)
from keyplan.model.types import Type, article
from keyplan.model.validate import NUMBERS
from keyplan.model.values import truncated_type

AGGREGATES = ("count", "sum", "min", "max", "avg")
COMMON_KEYS = ("where", "order", "rows", "rate", "peak", "skew", "top", "p99", "consistency", "stale", "note")
KIND_KEYS = {
    "find": ("find", "page", "limit", "select", "with"),
    **{how: (how, "group", "limit") for how in AGGREGATES},
    "from": ("from", "compute", "group", "limit"),
    "rank": ("rank", "of"),
}
PATTERN_KEYS = tuple(dict.fromkeys((*(key for keys in KIND_KEYS.values() for key in keys), *COMMON_KEYS)))
CONSISTENCIES = ("eventual", "session", "strong")
USUAL_PAGE = 100
MOST_PAGE = 100_000
SMALL = 10_000
"""An entity up to this many rows may be read as a whole, page by page, without saying so."""


class PatternReader(SelectReader):
    """Reads `patterns:`."""

    def pattern(self, name: str, node: Node) -> Pattern | None:
        entries = self.table(node, PATTERN_KEYS, f"pattern '{name}'")
        if not isinstance(node, Table):
            return None
        kinds = [kind for kind in KIND_KEYS if kind in entries]
        if len(kinds) != 1:
            what = f"has '{kinds[0]}' and '{kinds[1]}'" if kinds else "does not say what it reads"
            self.report.add(node, f"pattern '{name}' {what}; it takes exactly one of {', '.join(KIND_KEYS)}")
            self.figures(entries)
            return None
        kind = kinds[0]
        for key in entries:
            if key not in (*KIND_KEYS[kind], *COMMON_KEYS):
                self.report.add(node.key(key), f"a pattern with '{kind}' takes no '{key}'; remove it")
        entity, rest = self.entity_and_path(entries[kind], kind)
        if entity is None:
            self.figures(entries)
            return None
        params = Params(self)
        where = self.conditions(entity, entries.get("where"), params, "where")
        stale = self.amount(entries.get("stale"), "stale", units.parse_duration)
        consistency = self.choice(entries.get("consistency"), "consistency", CONSISTENCIES, "eventual")
        if stale and consistency == "strong":
            self.report.add(
                entries["stale"], "'stale' allows an old answer and 'consistency: strong' forbids it; keep one"
            )
        rows = self.rows(entity, entries.get("rows"), where)
        shape = self.shape(kind, entity, rest, where, entries, node, params)
        return Pattern(
            name=name,
            entity=entity,
            where=where,
            rows=rows,
            traffic=self.traffic(entries),
            p99_ms=self.p99(entries.get("p99")),
            consistency=consistency,
            stale_ms=stale,
            params=params.types,
            note=(self.text(entries["note"], "note") or "") if "note" in entries else "",
            line=node.line,
            **shape,  # type: ignore[arg-type]
        )

    def figures(self, entries: Mapping[str, Node]) -> None:
        """Reports what is wrong with the figures of a pattern of which nothing else can be read."""
        self.traffic(entries)
        self.p99(entries.get("p99"))
        self.amount(entries.get("stale"), "stale", units.parse_duration)
        self.choice(entries.get("consistency"), "consistency", CONSISTENCIES, "eventual")
        for key in ("page", "limit"):
            self.whole(entries.get(key), key)

    def entity_and_path(self, node: Node, kind: str) -> tuple[str | None, str]:
        """`Order` for most kinds, `Order.total` for sum, min, max and avg."""
        text = self.text(node, kind)
        if text is None:
            return None, ""
        name, _, rest = text.partition(".")
        entity = self.entity(Text(node.line, node.path, name), kind)
        if entity is None:
            return None, ""
        if kind in ("sum", "min", "max", "avg"):
            if not rest:
                self.report.add(node, f"'{kind}: {entity}' does not say of which field; write {kind}: {entity}.field")
                return None, ""
        elif rest:
            self.report.add(node, f"'{kind}' takes an entity, not the path '{shown(text)}'; write {kind}: {entity}")
        return entity, rest

    def shape(
        self,
        kind: str,
        entity: str,
        rest: str,
        where: tuple[Condition, ...],
        entries: Mapping[str, Node],
        node: Table,
        params: Params,
    ) -> dict[str, object]:
        """What differs between finds, aggregates and ranks."""
        if kind == "find":
            return self.find(entity, where, entries, node)
        if kind == "rank":
            return self.rank(entity, entries, node, params)
        return self.aggregate(kind, entity, rest, entries, node)

    def find(
        self, entity: str, where: tuple[Condition, ...], entries: Mapping[str, Node], node: Table
    ) -> dict[str, object]:
        one = self.fixes_one(entity, where)
        page, limit = self.whole(entries.get("page"), "page"), self.whole(entries.get("limit"), "limit")
        if page is not None and page > MOST_PAGE:
            self.report.add(entries["page"], f"a page has at most {units.format_count(MOST_PAGE)} rows; lower it")
        if "page" in entries and "limit" in entries:
            self.report.add(entries["limit"], "a pattern has a 'page' or a 'limit', not both; page pages, limit cuts")
        if "page" not in entries and "limit" not in entries and not one:
            page = USUAL_PAGE
            count = self.model.entities[entity].count
            if "where" not in entries and count > SMALL and set(entries) == set(node.entries):
                self.report.add(
                    node,
                    f"this reads all {units.format_count(count)} rows of '{entity}'; add a where, a limit or a page",
                )
        return {
            "kind": "find",
            "one": one,
            "page": None if one else page,
            "limit": None if one else limit,
            "order": self.order(entity, entries.get("order")),
            "select": self.select(entity, entries.get("select"), entries.get("with")),
        }

    def rank(self, entity: str, entries: Mapping[str, Node], node: Node, params: Params) -> dict[str, object]:
        if "order" not in entries:
            self.report.add(node, "a rank needs an order, which says what comes before what; add one")
        of: tuple[Condition, ...] = ()
        if "of" not in entries:
            self.report.add(
                node,
                f"a rank needs the key of the row it is for; add of: [{', '.join(self.model.entities[entity].key)}]",
            )
        elif isinstance(entries["of"], Items) or (isinstance(entries["of"], Text) and ":" not in entries["of"].text):
            found: dict[str, Condition] = {}
            for text in self.texts(entries["of"], "of"):
                for column in self.field_columns(entity, text):
                    params.add(text, column.name, column.type)
                    found[column.name] = Condition(Path((), column.name), "=", (Param(column.name),))
            of = tuple(found.values())
        else:
            of = self.conditions(entity, entries["of"], params, "of")
        key = self.model.entities[entity].key
        if "of" in entries and (sorted(c.path.column for c in of) != sorted(key) or not self.fixes_key(entity, of)):
            self.report.add(
                entries["of"], f"'of' names the parts of the key of '{entity}', each once; write [{', '.join(key)}]"
            )
        return {"kind": "rank", "of": of, "order": self.order(entity, entries.get("order"))}

    def aggregate(
        self, kind: str, entity: str, rest: str, entries: Mapping[str, Node], node: Node
    ) -> dict[str, object]:
        groups = self.groups(entity, entries.get("group"))
        computes: list[Compute] = []
        if kind == "from":
            if "compute" not in entries:
                self.report.add(
                    node, "'from' needs 'compute', a map of names to aggregates; add compute: {total: sum(field)}"
                )
            else:
                computes = self.computes(entity, entries["compute"])
        else:
            term = None if kind == "count" else self.path_term(entity, rest, entries[kind])
            if kind == "count" or term is not None:
                computed = self.compute(entity, kind, kind, term, entries[kind])
                computes = [] if computed is None else [computed]
        names: dict[str, None] = {}
        for name in [group.name for group in groups] + [compute.name for compute in computes]:
            if name in names:
                self.report.add(node, f"the answer would have two values named '{name}'; name them in a map")
            names[name] = None
        if "limit" in entries and not groups:
            self.report.add(entries["limit"], "a limit cuts groups, and there are none; add a group or remove it")
        if "order" in entries and not groups:
            self.report.add(entries["order"], "an order is for groups, and there are none; add a group or remove it")
        return {
            "kind": "aggregate",
            "group": tuple(groups),
            "compute": tuple(computes),
            "scalar": kind != "from" and not groups,
            "limit": self.whole(entries.get("limit"), "limit"),
            "order": self.group_order(entries.get("order"), names) if groups else (),
            "select": Select(()),
        }

    def group_order(self, node: Node | None, names: Mapping[str, None]) -> tuple[Order, ...]:
        found: dict[str, Order] = {}
        for sort, text in self.sorts(node):
            if not isinstance(sort.value, Name) or sort.value.text not in names:
                what = sort.value.text if isinstance(sort.value, Name) else text.text
                hint = self.report.near(what, names) or f"; the names are {', '.join(names) or 'none'}"
                self.report.add(
                    text, f"an order of groups names what was grouped or computed, not '{shown(what)}'{hint}"
                )
            elif sort.value.text in found:
                self.report.add(text, f"the order names '{sort.value.text}' twice; keep one")
            else:
                found[sort.value.text] = Order(Path((), sort.value.text), sort.descending)
        return tuple(found.values())

    def groups(self, entity: str, node: Node | None) -> list[Group]:
        """`[status, day(created_at)]`, or a map of names to the same."""
        named: list[tuple[str | None, Text]] = []
        if isinstance(node, Table):
            for name, value in node.entries.items():
                text = self.text(value, f"group '{shown(name)}'")
                if self.name(node.key(name), "a group") and text is not None:
                    named.append((name, Text(value.line, value.path, text)))
        elif node is not None:
            named = [(None, text) for text in self.texts(node, "group")]
        if node is not None and not named:
            self.report.add(node, "group is empty; name what to group by, or leave it out")
        found: list[Group] = []
        for wanted, item in named:
            group = self.group(entity, wanted, item)
            if group is not None:
                found.append(group)
        return found

    def group(self, entity: str, name: str | None, node: Text) -> Group | None:
        try:
            value = parse_value(node.text)
        except TextError as error:
            self.report.add(node, str(error))
            return None
        cut: str | None = None
        if isinstance(value, Call) and len(value.arguments) == 1:
            cut = value.name
            if cut not in CUTS:
                hint = self.report.near(cut, CUTS) or f"; the truncations are {', '.join(CUTS)}"
                self.report.add(node, f"unknown truncation '{shown(cut)}'{hint}")
                return None
            value = value.arguments[0]
        if not isinstance(value, Name):
            self.report.add(
                node, f"'{shown(node.text)}' is neither a field nor a truncation of one; write status or day(placed_at)"
            )
            return None
        path = self.path(entity, value.text, node)
        if path is None:
            return None
        type = self.model.column(entity, path).type
        if self.model.is_many(entity, path.roles):
            self.report.add(
                node, f"'{value.text}' leads to many rows, which cannot be grouped by; start from the other side"
            )
            return None
        if type.kind in ("json", "float") or type.is_collection:
            self.report.add(
                node, f"'{value.text}' is {article(type.kind)}, which cannot be grouped by; group by another field"
            )
            return None
        if cut is not None and type.kind != "?":
            try:
                truncated_type(type, cut)
            except ValueError as error:
                self.report.add(node, f"'{value.text}': {error}")
                return None
        return Group(name or cut or value.text.rpartition(".")[2], path, cut)

    def computes(self, entity: str, node: Node) -> list[Compute]:
        found: list[Compute] = []
        entries = self.table(node, None, "compute")
        if not entries and isinstance(node, Table | Text):
            self.report.add(node, "compute is empty; name at least one aggregate")
        for name, value in entries.items():
            assert isinstance(node, Table)
            text = self.text(value, f"compute '{shown(name)}'")
            if not self.name(node.key(name), "a value") or text is None:
                continue
            try:
                parsed = parse_aggregate(text)
            except TextError as error:
                self.report.add(value, str(error))
                continue
            if parsed.how not in AGGREGATES:
                hint = self.report.near(parsed.how, AGGREGATES) or f"; use one of {', '.join(AGGREGATES)}"
                self.report.add(value, f"unknown aggregate '{shown(parsed.how)}'{hint}")
                continue
            if (parsed.how == "count") != (parsed.expression is None):
                message = "count() takes nothing in brackets; to count rows that have a value, use where: present(path)"
                self.report.add(
                    value, message if parsed.how == "count" else f"{parsed.how}() needs an expression in its brackets"
                )
                continue
            term = None if parsed.expression is None else self.term(entity, parsed.expression, value)
            if parsed.expression is None or term is not None:
                compute = self.compute(entity, name, parsed.how, term, value)
                if compute is not None:
                    found.append(compute)
        return found

    def compute(self, entity: str, name: str, how: str, term: Term | None, node: Node) -> Compute | None:
        """One aggregate with the type of its answer."""
        if term is None:
            return Compute(name, how, None, Type("int"))
        type = self.term_type(entity, term, node)
        if type is None:
            return None
        if how in ("sum", "avg") and type.kind not in (*NUMBERS, "?"):
            self.report.add(node, f"{how} is for numbers, and '{term.path}' is {type}; name a number, or use count")
            return None
        if not type.is_ordered:
            self.report.add(
                node, f"'{term.path}' is {article(type.kind)}, which has no {how}; name a field that has an order"
            )
            return None
        return Compute(name, how, term, Type("float") if how == "avg" else type)

    def path_term(self, entity: str, text: str, node: Node) -> Term | None:
        path = self.path(entity, text, node)
        if path is None:
            return None
        if self.model.is_many(entity, path.roles):
            self.report.add(node, f"'{shown(text)}' leads to many rows; start from the entity it leads to")
            return None
        return Term(path=path)

    def term(self, entity: str, expression: Expression, node: Node) -> Term | None:
        if isinstance(expression, Name):
            return self.path_term(entity, expression.text, node)
        if isinstance(expression, Number):
            text = expression.text
            if len(text) > 18 or "e" in text.lower():
                self.report.add(node, f"'{shown(text)}' has too many digits for an expression; use fewer")
                return None
            return Term(number=int(text) if "." not in text else Decimal(text))
        assert isinstance(expression, Binary)
        left, right = self.term(entity, expression.left, node), self.term(entity, expression.right, node)
        return None if left is None or right is None else Term(op=expression.op, left=left, right=right)

    def term_type(self, entity: str, term: Term, node: Node) -> Type | None:
        """Integers stay exact, decimals keep all their digits, and a float makes everything float."""
        if term.path is not None:
            return self.model.column(entity, term.path).type
        if term.left is None or term.right is None:
            if isinstance(term.number, Decimal):
                return Type("decimal", scale=-int(term.number.as_tuple().exponent))
            return Type("int")
        types: list[Type] = []
        for side in (term.left, term.right):
            type = self.term_type(entity, side, node)
            if type is None:
                return None
            if type.kind not in (*NUMBERS, "?"):
                self.report.add(node, f"'{term.op}' is for numbers, and '{side.path}' is {type}; name a number")
                return None
            types.append(type)
        left, right = types
        kinds = {left.kind, right.kind}
        if "?" in kinds:
            return Type("?")
        if "float" in kinds:
            return Type("float")
        if "decimal" in kinds:
            scale = left.scale + right.scale if term.op == "*" else max(left.scale, right.scale)
            return Type("decimal", scale=scale)
        return Type("int")
