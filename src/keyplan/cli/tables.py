"""Aligned columns of text, made to fit the terminal; no library needed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from decimal import Decimal
from textwrap import wrap as wrap_text

GAP = "  "
INDENT = "  "
"""Before what goes on in the next line."""
NARROWEST = 8
"""No column is squeezed below this to make a table fit."""
COMFORTABLE = 24
"""Columns that wrap give way first, down to this."""


def several(number: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 row`, `2,000 rows`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def width() -> int:
    """The columns there are to fill: those of the terminal, or a fixed number, so that files are reproducible."""
    return max(60, min(shutil.get_terminal_size().columns, 140)) if sys.stdout.isatty() else 120


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "", wrap: str = "", fit: int | None = None
) -> list[str]:
    """Lines of aligned columns; the titles in `right` (separated by spaces) are aligned right.

    Where the lines would be wider than `fit`, columns are made narrower, those in `wrap` first, and the widest of them.
    What does not fit into a column goes on in the next line, as does what comes after a newline: nothing is cut off,
    since a name has to be read to its end to be asked about.
    """
    wrapped, rights = set(wrap.split()), set(right.split())
    sizes = [max(len(line) for row in (head, *rows) for line in row[index].split("\n")) for index in range(len(head))]
    spare = (width() if fit is None else fit) - sum(sizes) - len(GAP) * (len(head) - 1)
    while spare < 0:
        loose = [index for index, title in enumerate(head) if title in wrapped and sizes[index] > COMFORTABLE]
        widest = max(loose or range(len(head)), key=lambda index: sizes[index])
        if sizes[widest] <= NARROWEST:
            break
        sizes[widest] -= 1
        spare += 1
    lines = []
    for row in (head, *rows):
        cells = [_broken(text, size) for text, size in zip(row, sizes, strict=True)]
        for number in range(max(map(len, cells))):
            texts = [cell[number] if number < len(cell) else "" for cell in cells]
            lines.append(
                GAP.join(
                    text.rjust(size) if title in rights else text.ljust(size)
                    for text, size, title in zip(texts, sizes, head, strict=True)
                ).rstrip()
            )
    return lines


def _broken(text: str, size: int) -> list[str]:
    """The lines of a cell; what goes on is indented a little."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        if len(paragraph) <= size:
            lines.append(paragraph)
            continue
        # A composed key may be broken between its parts, as if there were spaces.
        loose = paragraph.replace("#{", "# {")
        short = " ".join(_with_short_words(loose, max(1, size - len(INDENT))))
        broken = wrap_text(short, size, subsequent_indent=INDENT, break_on_hyphens=False)
        lines += [line.replace("# {", "#{") for line in broken or [""]]
    return lines


def _with_short_words(text: str, size: int) -> list[str]:
    """Its words, longer ones in pieces of a whole line: left to itself, `wrap` ends lines with their first letters."""
    pieces: list[str] = []
    for word in text.split(" "):
        room = size if pieces else size + len(INDENT)
        while len(word) > room:
            # Names that are joined by dots are left whole, if that does not leave most of the line empty, or else the
            # words that a name is made of.
            ends = (word.rfind(joint, 0, room) + 1 for joint in "._")
            cut = next((end for end in ends if end > room // 2), room)
            pieces.append(word[:cut])
            word, room = word[cut:], size
        pieces.append(word)
    return pieces


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
    return f"{Decimal(text):f}" if "e" in text and abs(value) >= 1e-6 else text


def heading(left: str, right: str, *, fit: int | None = None) -> str:
    """One line with something at each end, or two lines if they do not fit on one."""
    space = (width() if fit is None else fit) - len(left) - len(right)
    return f"{left}\n{right}" if space < 2 else f"{left}{' ' * space}{right}"
