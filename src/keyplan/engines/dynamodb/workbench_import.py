"""Reads and writes models of NoSQL Workbench; what is not known here is kept and written again.

Files of all versions are read: those of 2019 have no version, later ones `1.0` to `3.0`. Where a table has facets, its
sample items are in them, otherwise in the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from keyplan.errors import ArgumentError

T = TypeVar("T")
Extra = dict[str, Any]
Item = dict[str, dict[str, Any]]

TYPES = frozenset({"S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS"})
PROJECTIONS = frozenset({"ALL", "KEYS_ONLY", "INCLUDE"})


@dataclass
class Attribute:
    """A name and one of DynamoDB's types, by its name in DynamoDB's JSON."""

    name: str
    type: str
    extra: Extra = field(default_factory=dict)


@dataclass
class Key:
    """The key of a table or index."""

    partition: Attribute
    sort: Attribute | None = None
    extra: Extra = field(default_factory=dict)


@dataclass
class Index:
    """A global secondary index."""

    name: str
    key: Key
    projection: str
    included: list[str] | None = None
    projection_extra: Extra = field(default_factory=dict)
    extra: Extra = field(default_factory=dict)


@dataclass
class Facet:
    """One kind of entries in a table, with a name for its keys."""

    name: str
    partition_alias: str | None = None
    sort_alias: str | None = None
    attributes: list[str] | None = None
    items: list[Item] | None = None
    alias_extra: Extra | None = field(default_factory=dict)
    """None: the file has no names for the keys."""
    extra: Extra = field(default_factory=dict)


@dataclass
class Table:
    """A table with its indexes and sample items; None is what the file does not have."""

    name: str
    key: Key
    attributes: list[Attribute] | None = None
    indexes: list[Index] | None = None
    facets: list[Facet] | None = None
    items: list[Item] | None = None
    billing: str | None = None
    capacity: Extra | None = None
    extra: Extra = field(default_factory=dict)

    @property
    def all_items(self) -> list[Item]:
        """The sample items, wherever they are."""
        return [*(self.items or ()), *(item for facet in self.facets or () for item in facet.items or ())]


@dataclass
class Workbench:
    """A model of NoSQL Workbench."""

    name: str
    metadata: Extra
    tables: list[Table]
    extra: Extra = field(default_factory=dict)

    @property
    def version(self) -> str | None:
        found = self.metadata.get("Version")
        return None if found is None else str(found)


def read_workbench(text: str) -> Workbench:
    """The model in a file of NoSQL Workbench."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ArgumentError("workbench: nested too deeply; export it anew") from None
    except ValueError as error:
        raise ArgumentError(f"workbench: this is not JSON: {error}; export the model again") from None
    node = _Node(found, "workbench")
    name = node.text("ModelName")
    metadata = node.mapping("ModelMetadata")
    return Workbench(name, metadata, node.each("DataModel", _read_table), node.rest())


def write_workbench(model: Workbench) -> str:
    """The file; what `read_workbench` gave comes out with the same content."""
    body = {
        "ModelName": model.name,
        "ModelMetadata": model.metadata,
        "DataModel": [_table(table) for table in model.tables],
        **model.extra,
    }
    return json.dumps(body, ensure_ascii=False, indent=2) + "\n"


class _Node:
    """An object of the file; knows its place, and what nobody has asked for."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise ArgumentError(f"{where}: expected an object, got {_kind(value)}")
        self.value: dict[str, Any] = value
        self.where = where
        self.known: set[str] = set()

    def get(self, name: str, kind: type[T], required: bool = True) -> T | None:
        self.known.add(name)
        found = self.value.get(name)
        if found is None and not required:
            return None
        if name not in self.value:
            raise ArgumentError(f"{self.where}: '{name}' is missing; this is not a model of NoSQL Workbench")
        if not isinstance(found, kind):
            raise ArgumentError(f"{self.where}.{name}: expected {_NAMES[kind]}, got {_kind(found)}")
        return found

    def text(self, name: str) -> str:
        found = self.get(name, str)
        assert found is not None
        return found

    def mapping(self, name: str) -> Extra:
        found = self.get(name, dict)
        assert found is not None
        return found

    def node(self, name: str) -> _Node:
        return _Node(self.mapping(name), f"{self.where}.{name}")

    def optional_node(self, name: str) -> _Node | None:
        found = self.get(name, dict, False)
        return None if found is None else _Node(found, f"{self.where}.{name}")

    def one_of(self, name: str, known: frozenset[str]) -> str:
        found = self.text(name)
        if found not in known:
            raise ArgumentError(f"{self.where}.{name}: '{found}' is not known; there are {', '.join(sorted(known))}")
        return found

    def each(self, name: str, read: Callable[[Any, str], T]) -> list[T]:
        found = self.get(name, list)
        assert found is not None
        return [read(one, f"{self.where}.{name}[{number}]") for number, one in enumerate(found)]

    def each_if(self, name: str, read: Callable[[Any, str], T]) -> list[T] | None:
        return None if self.get(name, list, False) is None else self.each(name, read)

    def rest(self) -> Extra:
        """What has not been asked for, and what was null."""
        return {name: value for name, value in self.value.items() if name not in self.known or value is None}


_NAMES: dict[type, str] = {str: "a text", dict: "an object", list: "a list"}


def _kind(value: Any) -> str:
    return "nothing" if value is None else _NAMES.get(type(value), f"'{value}'")


def _read_table(value: Any, where: str) -> Table:
    node = _Node(value, where)
    return Table(
        node.text("TableName"),
        _read_key(node.node("KeyAttributes")),
        node.each_if("NonKeyAttributes", _read_attribute),
        node.each_if("GlobalSecondaryIndexes", _read_index),
        node.each_if("TableFacets", _read_facet),
        node.each_if("TableData", _read_item),
        node.get("BillingMode", str, False),
        node.get("ProvisionedCapacitySettings", dict, False),
        node.rest(),
    )


def _read_key(node: _Node) -> Key:
    partition = _read_attribute(node.mapping("PartitionKey"), f"{node.where}.PartitionKey")
    sort = node.get("SortKey", dict, False)
    return Key(partition, None if sort is None else _read_attribute(sort, f"{node.where}.SortKey"), node.rest())


def _read_attribute(value: Any, where: str) -> Attribute:
    node = _Node(value, where)
    return Attribute(node.text("AttributeName"), node.one_of("AttributeType", TYPES), node.rest())


def _read_index(value: Any, where: str) -> Index:
    node = _Node(value, where)
    name, key, projection = node.text("IndexName"), _read_key(node.node("KeyAttributes")), node.node("Projection")
    kind = projection.one_of("ProjectionType", PROJECTIONS)
    included = projection.each_if("NonKeyAttributes", _read_text)
    return Index(name, key, kind, included, projection.rest(), node.rest())


def _read_facet(value: Any, where: str) -> Facet:
    node = _Node(value, where)
    name = node.text("FacetName")
    alias = node.optional_node("KeyAttributeAlias")
    attributes = node.each_if("NonKeyAttributes", _read_text)
    items = node.each_if("TableData", _read_item)
    if alias is None:
        return Facet(name, None, None, attributes, items, None, node.rest())
    partition, sort = alias.get("PartitionKeyAlias", str, False), alias.get("SortKeyAlias", str, False)
    return Facet(name, partition, sort, attributes, items, alias.rest(), node.rest())


def _read_text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"{where}: expected a text, got {_kind(value)}")
    return value


def _read_item(value: Any, where: str) -> Item:
    item = _Node(value, where).value
    for name, inner in item.items():
        if not isinstance(inner, dict) or len(inner) != 1 or not inner.keys() <= TYPES:
            raise ArgumentError(f'{where}.{name}: expected a value under its type, such as {{"S": …}}')
    return item


def _table(table: Table) -> dict[str, Any]:
    body: dict[str, Any] = {"TableName": table.name, "KeyAttributes": _key(table.key)}
    if table.attributes is not None:
        body["NonKeyAttributes"] = [_attribute(one) for one in table.attributes]
    if table.facets is not None:
        body["TableFacets"] = [_facet(one) for one in table.facets]
    if table.indexes is not None:
        body["GlobalSecondaryIndexes"] = [_index(one) for one in table.indexes]
    return {
        **body,
        **_given({"TableData": table.items}),
        **table.extra,
        **_given({"BillingMode": table.billing, "ProvisionedCapacitySettings": table.capacity}),
    }


def _given(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _attribute(one: Attribute) -> dict[str, Any]:
    return {"AttributeName": one.name, "AttributeType": one.type, **one.extra}


def _key(key: Key) -> dict[str, Any]:
    body = {"PartitionKey": _attribute(key.partition)}
    if key.sort is not None:
        body["SortKey"] = _attribute(key.sort)
    return {**body, **key.extra}


def _index(index: Index) -> dict[str, Any]:
    projection = {"ProjectionType": index.projection, **_given({"NonKeyAttributes": index.included})}
    return {
        "IndexName": index.name,
        "KeyAttributes": _key(index.key),
        "Projection": {**projection, **index.projection_extra},
        **index.extra,
    }


def _facet(facet: Facet) -> dict[str, Any]:
    body: dict[str, Any] = {"FacetName": facet.name}
    if facet.alias_extra is not None:
        alias = _given({"PartitionKeyAlias": facet.partition_alias, "SortKeyAlias": facet.sort_alias})
        body["KeyAttributeAlias"] = {**alias, **facet.alias_extra}
    return {**body, **_given({"NonKeyAttributes": facet.attributes, "TableData": facet.items}), **facet.extra}
