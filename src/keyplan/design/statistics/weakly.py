"""Methods that are handed on, or whose answers are remembered, without keeping their object alive.

An object that holds its own methods is freed only by the garbage collector, with everything that it leads to: a design
leaves tens of thousands of objects behind, which are gone at once where nothing goes round in a circle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ParamSpec, TypeVar
from weakref import ref

P = ParamSpec("P")
R = TypeVar("R")


def weakly(method: Callable[P, R]) -> Callable[P, R]:
    """The method, for whoever lives no longer than its object."""
    bound: Any = method
    owner, function = ref(bound.__self__), bound.__func__

    def call(*arguments: P.args, **named: P.kwargs) -> R:
        found: R = function(owner(), *arguments, **named)
        return found

    return call


def remembered(method: Callable[P, R]) -> Callable[P, R]:
    """The method, which answers each question once as long as its object lives."""
    found: Any = cache(weakly(method))
    kept: Callable[P, R] = found
    return kept
