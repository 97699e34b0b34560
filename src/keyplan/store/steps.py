"""What a call does, step by step, for whoever asks: known to all that runs within the call, however deep it is.

Steps are executed searches and writes. Whatever a write reads before it writes is among them, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from keyplan.engines.codec import Answer, Ask, Codec, Reader
from keyplan.engines.rounds import Proc, Reply
from keyplan.plan.edits import Edit

T = TypeVar("T")

Steps = list[dict[str, Any]]
_asked: ContextVar[Steps | None] = ContextVar("steps", default=None)


def is_asked() -> bool:
    """Whether somebody wants to know the steps of this call."""
    return _asked.get() is not None


def note(op: str, view: str, requests: int, rows: int, **more: int) -> None:
    """Notes a step of this call, if somebody wants to know."""
    steps = _asked.get()
    if steps is not None:
        steps.append({"op": op, "view": view, "requests": requests, "rows": rows, **more})


def sent(codec: Codec, edits: Sequence[Edit]) -> Proc[Reply]:
    """Writes edits together, as a step of its own."""
    (reply,) = yield [codec.write(edits)]
    note("write", views_of(edits), 1, len(edits))
    return reply


def views_of(edits: Iterable[Edit]) -> str:
    """What a step calls the views that it writes."""
    return ", ".join(dict.fromkeys(edit.view for edit in edits))


def answered(reader: Reader, asks: Sequence[Ask], view: str) -> Proc[list[tuple[Ask, Answer]]]:
    """All answers to what is asked of a view, each round a step of its own."""
    found: list[tuple[Ask, Answer]] = []
    while asks:
        replies = yield [ask.request for ask in asks]
        answers = [(ask, reader.answer(ask, reply)) for ask, reply in zip(asks, replies, strict=True)]
        note("get", view, len(asks), sum(len(rows) for _, answer in answers for rows in answer.rows))
        found += answers
        asks = [answer.more for _, answer in answers if answer.more is not None]
    return found


def noting(proc: Proc[T], steps: Steps) -> Proc[T]:
    """The same proc, its steps noted. They are asked for only while it runs by itself: between two of its rounds,
    others may run in the same thread."""
    reply: Any = None
    try:
        while True:
            before = _asked.set(steps)
            try:
                step = proc.send(reply)
            finally:
                _asked.reset(before)
            reply = yield step
    except StopIteration as done:
        result: T = done.value
        return result
