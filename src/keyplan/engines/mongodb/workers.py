"""Blocking calls that a coroutine waits for, each on an idle thread.

asyncio's own executor hands a call over by way of two futures, their locks and their callbacks, which takes as long as
the exchange with the server that is wanted. Here each thread has a queue, and what it found stands in one list that the
loop is woken up for, by a byte in a socket.

Whoever no longer waits (a call that was cancelled, a loop that was closed) leaves a thread that finishes its call and
whose answer nobody hears: only what may be done in vain belongs here.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future, get_running_loop
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from queue import SimpleQueue
from socket import socket, socketpair
from threading import Thread
from typing import Any

Job = tuple[Context, Callable[..., Any], tuple[Any, ...], "Future[Any]"]
Jobs = SimpleQueue[Job | None]
Outcomes = deque[tuple[Jobs, "Future[Any]", Any, BaseException | None]]

WAKINGS = 4096
"""Bytes that are taken from the socket at once: all there are, or the loop comes again."""


class Workers:
    """Threads of one event loop, as many as there were calls at the same time."""

    def __init__(self) -> None:
        self.flying = 0
        """Calls of the loop that are under way, here or otherwise: whoever makes them counts."""
        self._idle: list[Jobs] = []
        self._working = 0
        self._closing = False
        self._outcomes: Outcomes = deque()
        self._loop: AbstractEventLoop | None = None
        self._sockets: tuple[socket, ...] = ()
        self._wake: Callable[[], object] = int

    def call(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """What `work` returns or raises, done in the caller's context (where the driver has its deadlines)."""
        loop = get_running_loop()
        if loop is not self._loop:
            self._listen(loop)
        answer = loop.create_future()
        self._working += 1
        jobs = self._idle.pop() if self._idle else _started(self._outcomes, self._wake)
        jobs.put((copy_context(), work, arguments, answer))
        return answer

    def _listen(self, loop: AbstractEventLoop) -> None:
        self._end()
        self._loop, self._working, self._closing, self._outcomes = loop, 0, False, deque()
        woken, waking = self._sockets = socketpair()
        woken.setblocking(False)
        waking.setblocking(False)
        self._wake = partial(waking.send, b"x")
        try:
            loop.add_reader(woken, self._hear, woken)
        except NotImplementedError:  # a loop that cannot wait for sockets, on Windows
            self._wake = partial(loop.call_soon_threadsafe, self._hear)

    def _hear(self, woken: socket | None = None) -> None:
        if woken is not None:
            with suppress(BlockingIOError):
                woken.recv(WAKINGS)
        while self._outcomes:
            jobs, answer, value, error = self._outcomes.popleft()
            self._working -= 1
            self._idle.append(jobs)
            if answer.done():
                continue  # cancelled
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error)
        if self._closing:
            self.close()

    def close(self) -> None:
        """Ends the threads, those that are at work when they have done it."""
        self._closing = True
        if self._working:
            while self._idle:
                self._idle.pop().put(None)
        else:
            self._end()

    def _end(self) -> None:
        loop, self._loop = self._loop, None
        sockets, self._sockets = self._sockets, ()
        if loop is not None and not loop.is_closed():
            with suppress(NotImplementedError):
                loop.remove_reader(sockets[0])
        for each in sockets:
            each.close()  # whoever is at work sees it then
        while self._outcomes:
            self._idle.append(self._outcomes.popleft()[0])
        while self._idle:
            self._idle.pop().put(None)

    def __del__(self) -> None:
        self._end()


def _started(outcomes: Outcomes, wake: Callable[[], object]) -> Jobs:
    jobs: Jobs = SimpleQueue()
    Thread(target=_work, args=(jobs, outcomes, wake), name="keyplan-mongodb", daemon=True).start()
    return jobs


def _work(jobs: Jobs, outcomes: Outcomes, wake: Callable[[], object]) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        context, work, arguments, answer = job
        value, error = None, None
        try:
            value = context.run(work, *arguments)
        except BaseException as raised:
            error = raised
        outcomes.append((jobs, answer, value, error))
        try:
            wake()
        except BlockingIOError:
            pass  # it has thousands to wake up for
        except (OSError, RuntimeError):
            return  # nobody is there any more
        del job, context, work, arguments, answer, value, error  # nothing is kept alive by an idle thread
