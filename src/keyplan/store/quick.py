"""The short way for the plainest patterns: a row by its whole key, and rows in the order of a key whose start is fixed.

No generators, no merging, no clock. It is taken by sync stores only, and gives the call to the general way whenever
anything is out of the ordinary: an option, an error as a reply, an argument that does not pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from keyplan.engines.base import Port, Reader, Span
from keyplan.model.pattern import Param
from keyplan.store.order import position_of
from keyplan.store.read import STRENGTHS, Page, Read
from keyplan.store.search import SearchNode

NOT_QUICK = object()
"""The answer that means: go the general way."""

Quick = Callable[[Mapping[str, Any]], Any]
Key = tuple[Any, ...]
Find = Callable[[Key], "list[dict[str, Any]] | None"]
"""The rows under a key, or None for the general way."""


def quick_read(read: Read, port: Port) -> Quick | None:
    """The function that answers a pattern from its arguments, if parameters and nothing else fix the start of a key."""
    pattern = read.pattern
    if read.unserved is not None or pattern.kind != "find" or read.binder.groups:
        return None
    node = read.node
    if not isinstance(node, SearchNode) or node.drops or node.repeats or node.families:
        return None
    if not (node.spans.single if pattern.one else read.sorted):
        return None
    names = _parameters(node)
    if names is None or sorted(names) != sorted(read.binder.names):
        return None
    limit = None if pattern.one else pattern.limit if pattern.limit is not None else read.size
    bind = _binding([(name, read.binder.checks[name]) for name in names])
    find = _finding(node, len(names), limit, STRENGTHS[read.level], port)
    if pattern.one:
        return _one(read, bind, find)
    return _many(read, names, bind, find)


def _parameters(node: SearchNode) -> list[str] | None:
    """The parameters that fix the parts of the key, in their order; None if anything else has a say."""
    spans = node.spans
    if spans.scan or spans.range is not None:
        return None
    parts = spans.key.parts[: len(spans.fixed)]
    params: dict[str, str] = {}
    for condition in node.search.given:
        operand = condition.operands[0] if len(condition.operands) == 1 else None
        if condition.op != "=" or condition.cut is not None or not isinstance(operand, Param) or operand.negative:
            return None
        params[str(condition.path)] = operand.name
    if not parts or any(part.cut or part.ways > 1 or part.path not in params for part in parts):
        return None
    if len(params) != len(parts) or len(node.search.given) != len(parts):
        return None
    return [params[part.path] for part in parts]


def _binding(checks: list[tuple[str, Callable[[object], Any]]]) -> Callable[[Mapping[str, Any]], Key | None]:
    """From arguments to the values of the key; None if they are not exactly what is wanted."""
    count = len(checks)
    if count == 1:
        ((name, check),) = checks

        def single(arguments: Mapping[str, Any]) -> Key | None:
            if len(arguments) != 1:
                return None
            try:
                return (check(arguments[name]),)
            except (KeyError, ValueError):
                return None

        return single

    def several(arguments: Mapping[str, Any]) -> Key | None:
        if len(arguments) != count:
            return None
        try:
            return tuple([check(arguments[name]) for name, check in checks])
        except (KeyError, ValueError):
            return None

    return several


def _finding(node: SearchNode, width: int, limit: int | None, strong: int, port: Port) -> Find:
    send = port.send
    direct = node.reader.direct(width, limit, strong=strong)
    if direct is None:
        return _asking(node.reader, len(node.spans.key.partition), limit, strong, port)
    request, decode = direct

    def find(key: Key) -> list[dict[str, Any]] | None:
        (reply,) = send((request(key),))
        return None if isinstance(reply, Exception) else decode(reply)

    return find


def _asking(reader: Reader, width: int, limit: int | None, strong: int, port: Port) -> Find:
    send = port.send

    def find(key: Key) -> list[dict[str, Any]] | None:
        asks = reader.ask((Span(key[:width], key[width:]),), limit, strong=strong)
        if len(asks) != 1:
            return None
        (reply,) = send((asks[0].request,))
        if isinstance(reply, Exception):
            return None
        answer = reader.answer(asks[0], reply)
        if answer.more is not None and (limit is None or len(answer.rows[0]) < limit):
            return None
        return answer.rows[0] if limit is None else answer.rows[0][:limit]

    return find


def _one(read: Read, bind: Callable[[Mapping[str, Any]], Key | None], find: Find) -> Quick:
    shape = None if read.is_shaped else read.shape

    def get(arguments: Mapping[str, Any]) -> Any:
        key = bind(arguments)
        if key is None:
            return NOT_QUICK
        rows = find(key)
        if rows is None:
            return NOT_QUICK
        if not rows:
            return None
        return rows[0] if shape is None else shape(rows[0])

    return get


def _many(read: Read, names: list[str], bind: Callable[[Mapping[str, Any]], Key | None], find: Find) -> Quick:
    shaped, order, size = read.shaped, read.order, read.size
    text = read.cursors.text if read.paged else None

    def rows(arguments: Mapping[str, Any]) -> Any:
        key = bind(arguments)
        if key is None:
            return NOT_QUICK
        found = find(key)
        if found is None:
            return NOT_QUICK
        if text is None:
            return shaped(found)
        if len(found) < size:
            return Page(shaped(found))
        cursor = text(position_of(order, found[-1]), dict(zip(names, key, strict=True)))
        return Page(shaped(found), cursor)

    return rows
