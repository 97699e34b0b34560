"""Aligned columns of text, made to fit the terminal; no library needed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

GAP = "  "
NARROWEST = 8
"""No column is squeezed below this to make a table fit."""


def width() -> int:
    """The columns there are to fill: those of the terminal, or a fixed number, so that files are reproducible."""
    return max(60, min(shutil.get_terminal_size().columns, 140)) if sys.stdout.isatty() else 120


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "", fit: int | None = None) -> list[str]:
    """Lines of aligned columns; the titles in `right` (separated by spaces) are aligned right.

    Where the lines would be wider than `fit`, the widest columns are cut, and what was cut ends in `…`.
    """
    sizes = [max(len(row[index]) for row in (head, *rows)) for index in range(len(head))]
    spare = (width() if fit is None else fit) - sum(sizes) - len(GAP) * (len(head) - 1)
    while spare < 0 and max(sizes) > NARROWEST:
        widest = sizes.index(max(sizes))
        second = max((size for index, size in enumerate(sizes) if index != widest), default=NARROWEST)
        cut = min(-spare, max(1, sizes[widest] - max(second, NARROWEST)))
        sizes[widest] -= cut
        spare += cut
    rights = set(right.split())
    lines = []
    for row in (head, *rows):
        cells = [_shortened(text, size) for text, size in zip(row, sizes, strict=True)]
        lines.append(
            GAP.join(
                cell.rjust(size) if title in rights else cell.ljust(size)
                for cell, size, title in zip(cells, sizes, head, strict=True)
            ).rstrip()
        )
    return lines


def _shortened(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"


def number(value: float, digits: int = 3) -> str:
    """A figure to read: three significant digits, no exponent, thousands separated.

    >>> [number(x) for x in (0, 0.5, 12, 1234567.8, 0.01234, 99.96)]
    ['0', '0.5', '12', '1,234,568', '0.0123', '100']
    """
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    if "e" in text:
        return text if abs(value) < 1e-6 else f"{value:.8f}".rstrip("0")
    return text


def heading(left: str, right: str, *, fit: int | None = None) -> str:
    """One line with something at each end, or two lines if they do not fit on one."""
    space = (width() if fit is None else fit) - len(left) - len(right)
    return f"{left}\n{right}" if space < 2 else f"{left}{' ' * space}{right}"
