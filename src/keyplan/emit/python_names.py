"""Names in the types for Python that mean two things: a call of the model is called as a type that its types need.

Inside of a class, a name is first looked for among its methods. So a store whose pattern is called `date` or `int`
spells the types of these names with an underscore before them, which no name of a model has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from io import StringIO
from tokenize import NAME, TokenInfo, generate_tokens

from keyplan.emit.python_head import IMPORTED

_BUILT_IN = {
    *("bool", "bytearray", "bytes", "float", "frozenset", "int", "list", "memoryview", "object", "property", "str"),
    "tuple",
}


def class_title(text: str, taken: Collection[str]) -> str:
    """A class name that nothing else has, `taken` or of Python itself."""
    name = camel(text)
    while name in taken or name in ("None", "True", "False"):
        name += "_"
    return name


def camel(text: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in text.replace("-", "_").split("_") if part)


def apart(methods: Collection[str], classes: Collection[str], text: str) -> tuple[str, list[str]]:
    """The text of a store's methods in which types are not taken for methods, and the lines it then needs before it."""
    names = {*methods} & {*classes, *_BUILT_IN}
    lines = text.splitlines(keepends=True)
    found = [*_types(text, names)] if names else []
    for token in reversed(found):
        row, column = token.start
        line = lines[row - 1]
        lines[row - 1] = f"{line[:column]}_{line[column:]}"
    return "".join(lines), [*_known_as(sorted({token.string for token in found}))]


def _types(text: str, names: Collection[str]) -> Iterator[TokenInfo]:
    """Where names stand for types or decorators, and neither for a method nor for an argument."""
    tokens = [token for token in generate_tokens(StringIO(text).readline) if token.string.strip()]
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        is_argument = before.string in ("(", ",") and after.string == ":"
        if token.type == NAME and token.string in names and before.string not in ("class", "def") and not is_argument:
            yield token


def _known_as(names: Iterable[str]) -> Iterator[str]:
    modules = {name: module for module, some in IMPORTED.items() for name in some}
    for name in names:
        module = "builtins" if name in _BUILT_IN else modules.get(name)
        if module is None:
            yield f"_{name} = {name}"
        elif module == "keyplan":
            yield f"if TYPE_CHECKING:\n    from keyplan import {name} as _{name}"
        else:
            yield f"from {module} import {name} as _{name}"
