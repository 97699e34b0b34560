"""The types of what views keep: of paths, of the parts of keys, and of kept aggregates."""

from __future__ import annotations

from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.model.pattern import Path, Term
from keyplan.model.types import Type
from keyplan.model.values import truncated_type
from keyplan.plan.view import COPIES, Measure, Part


def path_type(model: Model, entity: str, path: str) -> tuple[Type, bool]:
    """The type of a path, and whether it can be missing in an entry."""
    own = model.entities[entity].columns.get(path)
    if own is not None:
        return own.type, own.optional
    if path.endswith(f".{EXPIRES}"):
        return Type("timestamp"), True
    return model.column(entity, model.resolve(entity, path)).type, True


def part_type(model: Model, entity: str, part: Part) -> Type:
    """The type of a key part's values."""
    if part.ways > 1 or part.cut == COPIES:
        return Type("int")
    if part.cut == "words" or part.or_missing:
        return Type("string")
    type, _ = path_type(model, entity, part.path)
    if part.cut == "each":
        assert type.of is not None
        return type.of
    return truncated_type(type, part.cut) if part.cut else type


def measure_type(model: Model, entity: str, measure: Measure) -> Type:
    """The type of a kept aggregate; of a product of decimals, all digits after the point."""
    if measure.how == "count" or measure.term is None:
        return Type("int")
    return term_type(model, entity, measure.term)


def term_type(model: Model, entity: str, term: Term) -> Type:
    if term.path is not None:
        return path_type(model, entity, str(Path(*term.path)))[0]
    if term.left is None or term.right is None:
        if isinstance(term.number, float):
            return Type("float")
        exponent = getattr(term.number, "as_tuple", lambda: None)()
        return Type("int") if exponent is None else Type("decimal", scale=max(0, -int(exponent.exponent)))
    left, right = term_type(model, entity, term.left), term_type(model, entity, term.right)
    if "float" in (left.kind, right.kind):
        return Type("float")
    if left.kind == right.kind == "int":
        return Type("int")
    return Type("decimal", scale=left.scale + right.scale if term.op == "*" else max(left.scale, right.scale))


SUMMED_DIGITS = 11
"""What a sum over a hundred billion rows has more than one of them."""


def most_digits(model: Model, entity: str, term: Term | None) -> int:
    """The most digits that a value of an expression can have."""
    if term is None:
        return 0
    if term.path is not None:
        return {"int": 19, "decimal": 18}.get(model.column(entity, term.path).type.kind, 0)
    if term.left is None or term.right is None:
        return len(str(term.number))
    left, right = most_digits(model, entity, term.left), most_digits(model, entity, term.right)
    return left + right if term.op == "*" else max(left, right) + 1
