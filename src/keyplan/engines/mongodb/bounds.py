"""Conditions on the parts of a compound `_id`, as a range of `_id`s: that is what its index can be searched by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keyplan.engines.mongodb.values import ID, TOP, Document


def id_range(parts: Sequence[str], tests: Mapping[str, Document]) -> Document:
    """Tests by field (`{"_id.user": {"$eq": 1}}`) with those on a prefix of the `_id`'s parts put together.

    Equality on all parts is the `_id` itself; equality on the first ones and a range on the next is a range from one
    document to another. A test that the range says only in part (an open bound) is repeated on its field.
    """
    rest = dict(tests)
    low: Document = {}
    high: Document = {}
    for number, name in enumerate(parts):
        inner = name.partition(".")[2]
        test = tests.get(name, {})
        if list(test) == ["$eq"]:
            low[inner] = high[inner] = test["$eq"]
            del rest[name]
            if number == len(parts) - 1:
                return {ID: low, **rest}
            continue
        above = next((test[each] for each in ("$gte", "$gt") if each in test), None)
        below = next((test[each] for each in ("$lte", "$lt") if each in test), None)
        if above is not None:
            low[inner] = above
        last = number == len(parts) - 1
        if below is not None:
            high[inner] = below
            if not last:
                high[parts[number + 1].partition(".")[2]] = TOP
        else:
            high[inner] = TOP
        if set(test) <= {"$gte", "$lte"}:
            rest.pop(name, None)
        break
    if not low and (not high or next(iter(high.values())) is TOP):
        return rest
    found: Document = {ID: {**({"$gte": low} if low else {}), "$lte": high}}
    return {**found, **rest}
