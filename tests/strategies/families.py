"""Programs that read rows together with their children."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from hypothesis import strategies as st

from keyplan.model.model import Model
from keyplan.model.pattern import Condition, Order, Param, Path, Pattern, Select, Traffic
from tests.strategies.programs import Program, operations, programs


@dataclass(frozen=True)
class Extended(Program):
    """A program on a model with more patterns than its text has."""

    extended: Model | None = None

    @cached_property
    def model(self) -> Model:
        assert self.extended is not None
        return self.extended


@st.composite
def families(draw: st.DrawFn) -> Extended:
    """Programs that read rows by their keys with all their children, and with the first ones in some order."""
    program = draw(programs())
    model = program.model
    patterns = dict(model.patterns)
    for entity in model.entities.values():
        where = tuple(Condition(Path((), column), "=", (Param(column),)) for column in entity.key)
        params = {column: entity.columns[column].type for column in entity.key}
        # Of a composite reference, part of which is in the key, all or nothing is selected, as a model's text would.
        fields = {entity.columns[column].field for column in entity.key}
        key = tuple(column for column in entity.stored if entity.columns[column].field in fields)
        for role in (role for role in entity.roles.values() if role.many):
            child = model.entities[role.entity]
            shown = tuple(column for column in child.stored if not child.columns[column].hidden)
            able = [column for column in shown if child.columns[column].type.is_ordered]
            for name, limit in (("all", None), ("first", draw(st.integers(1, 3))), ("some", draw(st.integers(1, 2)))):
                by = draw(st.lists(st.sampled_from(able), max_size=2, unique=True)) if able else []
                order = tuple(Order(Path((), column), draw(st.booleans())) for column in by)
                select = Select(key, {role.name: Select(shown, {}, order, limit)})
                one = Pattern(f"{name}_{role.name}_of_{entity.name}", "find", entity.name, where, select=select)
                patterns[one.name] = replace(one, one=True, traffic=Traffic(1000.0), params=params)
    more = replace(model, patterns=patterns)
    return Extended(program.model_text, program.rows, draw(operations(more, program.rows, 24)), more)
