"""What a write does to a row, in SQL for people: with `:columns` in place of values."""

from __future__ import annotations

from keyplan.engines.sqlite.layout import Index, Table, key_columns, layout
from keyplan.engines.sqlite.sql import quote
from keyplan.model.model import Model
from keyplan.model.write import Write
from keyplan.plan.design import Design
from keyplan.plan.steps import Touch


def edit_words(model: Model, design: Design, write: Write, touch: Touch) -> str:
    """The statement for one row; none for an index, which SQLite keeps itself."""
    place = layout(model, design).of(touch.view)
    if isinstance(place, Index):
        return ""
    if touch.edit == "add":
        return _add(place)
    if touch.edit == "delete":
        return f"DELETE FROM {place.quoted} WHERE {_key(place)}"
    if touch.edit == "patch" and write.kind == "change" and not design.writes[write.name].reads_row:
        return f"{_insert(place)}\nON CONFLICT ({key_columns(place, directed=False)}) DO UPDATE SET …"
    if touch.edit == "patch":
        return f"UPDATE {place.quoted} SET … WHERE {_key(place)}"
    put = f"INSERT OR REPLACE INTO {place.quoted} ({', '.join(_columns(place))})\nVALUES ({', '.join(_values(place))})"
    return f"DELETE FROM {place.quoted} WHERE {_key(place)};\n{put}" if touch.edit == "move" else put


def _add(table: Table) -> str:
    keys = {part.path for part in table.parts}
    sets = []
    for path, slot in table.slots.items():
        if path not in keys:
            name, value = quote(slot.path), f":{quote(slot.path)}"
            how = table.extends.get(path)
            sets.append(f"{name} = {how}({name}, {value})" if how else f"{name} = {name} + {value}")
    return f"{_insert(table)}\nON CONFLICT ({key_columns(table, directed=False)}) DO UPDATE SET {', '.join(sets)}"


def _insert(table: Table) -> str:
    return f"INSERT INTO {table.quoted} ({', '.join(_columns(table))})\nVALUES ({', '.join(_values(table))})"


def _columns(table: Table) -> list[str]:
    return [quote(slot.path) for slot in table.slots.values()]


def _values(table: Table) -> list[str]:
    return [f":{slot.path}" if slot.path.isidentifier() else f":{quote(slot.path)}" for slot in table.slots.values()]


def _key(table: Table) -> str:
    return " AND ".join(f"{part.expression} = :{part.path}" for part in table.parts) or "1"
