"""The short way for the plainest patterns: a row by its whole key, and rows in the order of a key whose start is fixed.

No generators, no merging, no clock; one request. It gives the call to the general way whenever anything is out of the
ordinary: an option, an error as a reply, an argument that does not pass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from keyplan.engines.codec import Reader, Span
from keyplan.engines.ports import AsyncPort, Port
from keyplan.engines.rounds import Reply, Request
from keyplan.errors import UnavailableError
from keyplan.model.pattern import Param
from keyplan.store.reading.order import position_of
from keyplan.store.reading.patterns import STRENGTHS, Page, Read
from keyplan.store.reading.search import SearchNode

NOT_QUICK = object()
"""The answer that means: go the general way."""

Quick = Callable[[Mapping[str, Any]], Any]
QuickAsync = Callable[[Mapping[str, Any]], Awaitable[Any]]
Key = tuple[Any, ...]
Rows = list[dict[str, Any]]
Begin = Callable[[Key], "tuple[Request, Any] | None"]
"""The one request for the rows under a key, and whatever decoding its reply takes; None for the general way."""
Decode = Callable[[Any, Reply], "Rows | None"]
Finish = Callable[[Key, Rows], Any]
"""The answer, from the key and its rows."""
Bind = Callable[[Mapping[str, Any]], "Key | None"]


def quick_read(read: Read, port: Port) -> Quick | None:
    """The function that answers a pattern from its arguments, if parameters and nothing else fix the start of a key."""
    parts = _parts(read)
    if parts is None:
        return None
    bind, begin, decode, finish = parts
    send = port.send

    def answer(arguments: Mapping[str, Any]) -> Any:
        key = bind(arguments)
        begun = None if key is None else begin(key)
        if key is None or begun is None:
            return NOT_QUICK
        request, how = begun
        (reply,) = send((request,))
        if isinstance(reply, UnavailableError):  # whoever asks again waits as long again
            raise reply
        rows = None if isinstance(reply, Exception) else decode(how, reply)
        return NOT_QUICK if rows is None else finish(key, rows)

    return answer


def quick_read_async(read: Read, port: AsyncPort) -> QuickAsync | None:
    """The same for an async port."""
    parts = _parts(read)
    if parts is None:
        return None
    bind, begin, decode, finish = parts
    send = port.send

    async def answer(arguments: Mapping[str, Any]) -> Any:
        key = bind(arguments)
        begun = None if key is None else begin(key)
        if key is None or begun is None:
            return NOT_QUICK
        request, how = begun
        (reply,) = await send((request,))
        if isinstance(reply, UnavailableError):  # whoever asks again waits as long again
            raise reply
        rows = None if isinstance(reply, Exception) else decode(how, reply)
        return NOT_QUICK if rows is None else finish(key, rows)

    return answer


def _parts(read: Read) -> tuple[Bind, Begin, Decode, Finish] | None:
    """From arguments to a key, from that to the request, from the reply to rows, and from these to the answer."""
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
    begin, decode = _finding(node, len(names), limit, STRENGTHS[read.level])
    return bind, begin, decode, _one(read) if pattern.one else _many(read, names)


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


def _binding(checks: list[tuple[str, Callable[[object], Any]]]) -> Bind:
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


def _finding(node: SearchNode, width: int, limit: int | None, strong: int) -> tuple[Begin, Decode]:
    direct = node.reader.direct(width, limit, strong=strong)
    if direct is None:
        return _asking(node.reader, len(node.spans.key.partition), limit, strong)
    request, decode = direct
    return lambda key: (request(key), None), lambda _, reply: decode(reply)


def _asking(reader: Reader, width: int, limit: int | None, strong: int) -> tuple[Begin, Decode]:
    def begin(key: Key) -> tuple[Request, Any] | None:
        asks = reader.ask((Span(key[:width], key[width:]),), limit, strong=strong)
        return (asks[0].request, asks[0]) if len(asks) == 1 else None

    def decode(ask: Any, reply: Reply) -> Rows | None:
        answer = reader.answer(ask, reply)
        if answer.more is not None and (limit is None or len(answer.rows[0]) < limit):
            return None
        return answer.rows[0] if limit is None else answer.rows[0][:limit]

    return begin, decode


def _one(read: Read) -> Finish:
    shape = None if read.is_shaped else read.shape
    return lambda _, rows: None if not rows else rows[0] if shape is None else shape(rows[0])


def _many(read: Read, names: list[str]) -> Finish:
    shaped, order, size = read.shaped, read.order, read.size
    text = read.cursors.text if read.paged else None
    if text is None:
        return lambda _, rows: shaped(rows)

    def page(key: Key, rows: Rows) -> Any:
        if len(rows) < size:
            return Page(shaped(rows))
        cursor = text(position_of(order, rows[-1]), dict(zip(names, key, strict=True)))
        return Page(shaped(rows), cursor)

    return page
