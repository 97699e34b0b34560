"""Driving procs: two short loops, one sync and one async, and the generators that stand between a proc and a loop.

A proc is a generator that yields rounds of requests (or a Pause) and is sent the replies. Everything that is not
waiting is done in generators, so that nothing is written twice: `patient` repeats throttled requests, `counted` counts
what is sent, `gather` steps several procs at once.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from keyplan.engines.ports import AsyncPort, Port
from keyplan.engines.rounds import Pause, Proc, Reply, Round
from keyplan.errors import ThrottledError

T = TypeVar("T")

BUDGET_SECONDS = 10.0
"""How long a call may wait in all for an engine that refuses for want of capacity."""
LONG_SECONDS = 30.0
"""And how long each round of something that takes long by itself: applying, loading, verifying."""
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 2.0


def run(proc: Proc[T], port: Port) -> T:
    """Drives a proc to its end on a sync port."""
    send = port.send
    try:
        step = next(proc)
        while True:
            if step.__class__ is Pause:
                time.sleep(step.seconds)
                step = proc.send(())
            else:
                step = proc.send(send(step))  # type: ignore[arg-type]
    except StopIteration as done:
        result: T = done.value
        return result


async def run_async(proc: Proc[T], port: AsyncPort) -> T:
    """Drives a proc to its end on an async port."""
    send = port.send
    try:
        step = next(proc)
        while True:
            if step.__class__ is Pause:
                await asyncio.sleep(step.seconds)
                step = proc.send(())
            else:
                step = proc.send(await send(step))  # type: ignore[arg-type]
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        proc.close()


def persistent(proc: Proc[T]) -> Proc[T]:
    """As `patient`, for what takes long by itself: as long as it gets on, it may wait again for every round."""
    return patient(proc, LONG_SECONDS, renewed=True)


def patient(proc: Proc[T], budget: float = BUDGET_SECONDS, *, renewed: bool = False) -> Proc[T]:
    """The same proc, but requests that were throttled are sent again, after growing pauses with jitter.

    A throttled request was refused, not done, so that repeating it is safe. When the budget is used up, the proc gets
    the ThrottledError as its reply.
    """
    left = budget
    try:
        step = next(proc)
        while True:
            replies: Sequence[Reply] = yield step
            for reply in replies:
                if isinstance(reply, ThrottledError) and not reply.waited:
                    replies, left = yield from _again(step, list(replies), left)  # type: ignore[arg-type]
                    left = budget if renewed else left
                    break
            step = proc.send(replies)
    except StopIteration as done:
        result: T = done.value
        return result


def _again(round: Round, replies: list[Reply], left: float) -> Proc[tuple[list[Reply], float]]:
    wait = _FIRST_WAIT
    while True:
        refused = [
            number for number, reply in enumerate(replies) if isinstance(reply, ThrottledError) and not reply.waited
        ]
        if not refused or left <= 0:
            return replies, left
        seconds = min(left, wait * (0.5 + random.random()))
        yield Pause(seconds)
        left -= seconds
        wait = min(_LONGEST_WAIT, wait * 2)
        found = yield [round[number] for number in refused]
        for number, reply in zip(refused, found, strict=True):
            replies[number] = reply


@dataclass
class Tally:
    """What a proc sent."""

    rounds: int = 0
    requests: int = 0


def counted(proc: Proc[T], tally: Tally) -> Proc[T]:
    """The same proc, its rounds and requests counted."""
    try:
        step = next(proc)
        while True:
            if not isinstance(step, Pause):
                tally.rounds += 1
                tally.requests += len(step)
            step = proc.send((yield step))
    except StopIteration as done:
        result: T = done.value
        return result


def gather(procs: Iterable[Proc[T]]) -> Proc[list[T]]:
    """Several procs in lockstep: what they ask for at the same time becomes one round.

    A Pause of one holds up all. The first error of one ends all.
    """
    steps: list[Generator[Any, Any, T]] = list(procs)
    if len(steps) == 1:
        return [(yield from steps[0])]
    results: list[Any] = [None] * len(steps)
    waiting: dict[int, Round | Pause] = {}
    try:
        for number, proc in enumerate(steps):
            _advance(proc, number, None, waiting, results)
        while waiting:
            pauses = [step.seconds for step in waiting.values() if isinstance(step, Pause)]
            if pauses:
                yield Pause(max(pauses))
            rounds = {number: step for number, step in waiting.items() if not isinstance(step, Pause)}
            idle = [number for number in waiting if number not in rounds]
            replies: Sequence[Reply] = ()
            if rounds:
                replies = yield [request for step in rounds.values() for request in step]
            start = 0
            for number, step in rounds.items():
                end = start + len(step)
                _advance(steps[number], number, replies[start:end], waiting, results)
                start = end
            for number in idle:
                _advance(steps[number], number, (), waiting, results)
    finally:
        for proc in steps:
            proc.close()
    return results


def _advance(
    proc: Generator[Any, Any, T],
    number: int,
    replies: Sequence[Reply] | None,
    waiting: dict[int, Round | Pause],
    results: list[Any],
) -> None:
    try:
        waiting[number] = proc.send(replies)
    except StopIteration as done:
        waiting.pop(number, None)
        results[number] = done.value


def check(replies: Sequence[Reply]) -> Sequence[Reply]:
    """Raises the first error among the replies."""
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies
