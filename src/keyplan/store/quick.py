"""The short way for the plainest pattern: one row by its whole key, without generators, merging or a clock.

It is taken by sync stores only, and gives the call to the general way whenever anything is out of the ordinary: an
option, an error as a reply, an argument that does not pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from keyplan.engines.base import Port, Span
from keyplan.model.pattern import Param
from keyplan.store.read import Read
from keyplan.store.search import SearchNode

NOT_QUICK = object()
"""The answer that means: go the general way."""

Quick = Callable[[Mapping[str, Any]], Any]


def quick_get(read: Read, port: Port) -> Quick | None:
    """The function that answers a pattern from its arguments, if it is a get by parameters alone."""
    pattern = read.pattern
    if read.unserved is not None or pattern.kind != "find" or not pattern.one or read.binder.groups:
        return None
    node = read.node
    if not isinstance(node, SearchNode) or not node.spans.single or node.drops or node.repeats:
        return None
    params: dict[str, str] = {}
    for condition in node.search.given:
        operand = condition.operands[0] if len(condition.operands) == 1 else None
        if condition.op != "=" or condition.cut is not None or not isinstance(operand, Param) or operand.negative:
            return None
        params[str(condition.path)] = operand.name
    parts = node.spans.key.parts
    if any(part.cut or part.ways > 1 or part.path not in params for part in parts) or len(params) != len(parts):
        return None
    names = [params[part.path] for part in parts]
    if sorted(names) != sorted(read.binder.names):
        return None
    checks = [(name, read.binder.checks[name]) for name in names]
    count, width = len(checks), len(node.spans.key.partition)
    first, check_first = checks[0]
    reader, shape, send, strong = node.reader, read.shape, port.send, read.level > 0

    def get(arguments: Mapping[str, Any]) -> Any:
        if len(arguments) != count:
            return NOT_QUICK
        try:
            if count == 1:
                key: tuple[Any, ...] = (check_first(arguments[first]),)
            else:
                key = tuple([check(arguments[name]) for name, check in checks])
        except (KeyError, ValueError):
            return NOT_QUICK
        (ask,) = reader.ask((Span(key[:width], key[width:]),), None, strong=strong)
        (reply,) = send((ask.request,))
        if isinstance(reply, Exception):
            return NOT_QUICK
        answer = reader.answer(ask, reply)
        if answer.more is not None:
            return NOT_QUICK
        rows = answer.rows[0]
        return shape(rows[0]) if rows else None

    return get
