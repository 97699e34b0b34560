"""The schema as a readable SQL script."""

from __future__ import annotations

from collections.abc import Mapping

from keyplan.engines.sqlite.layout import Index, Table, index_ddl, layout, table_ddl
from keyplan.errors import UnsupportedError, nearest
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.names import part_name

FORMATS = ("sql",)


def emit(model: Model, design: Design, to: str) -> Mapping[str, str]:
    """`sql`: CREATE TABLE and CREATE INDEX statements, each with what it is for."""
    if to not in FORMATS:
        hint = nearest(to, FORMATS) or f"; there is {', '.join(FORMATS)}"
        raise UnsupportedError(f"sqlite has no format '{to}'{hint}")
    places = layout(model, design)
    blocks = [f"-- {model.name} on SQLite, designed by keyplan. Needs SQLite 3.37.\nPRAGMA journal_mode = WAL;"]
    for name, table in places.tables.items():
        blocks.append(f"{_comment(design, name, table)}{table_ddl(table)};")
        for index in table.indexes:
            blocks.append(f"{_comment(design, index.view.name, index)}{index_ddl(index)};")
    return {f"{model.name}.sql": "\n\n".join(blocks) + "\n"}


def _comment(design: Design, view: str, place: Table | Index) -> str:
    lines = []
    if isinstance(place, Table) and design.homes.get(place.view.entity, ("",))[0] != view:
        by = ", ".join(part_name(part) for part in place.view.parts) or "nothing"
        lines.append(f"{'sums' if place.view.measures else 'copies'} of {place.view.entity} by {by}, kept by keyplan")
    if isinstance(place, Index) and place.view.unique:
        lines.append(f"keeps {' with '.join(part_name(part) for part in place.view.parts)} unique")
    figures = design.figures.get(view)
    if figures is not None and figures.because:
        lines.append(f"for {', '.join(figures.because)}")
    return "".join(f"-- {line}\n" for line in lines)
