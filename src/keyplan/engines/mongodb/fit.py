"""Which views are possible on MongoDB: collections of documents, and indexes over the fields of one collection."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from keyplan.engines.mongodb.limits import LIMITS
from keyplan.engines.mongodb.states import by_column, is_empty
from keyplan.engines.mongodb.values import LOW_DIGITS
from keyplan.engines.work import Rejection, ViewFacts
from keyplan.errors import ArgumentError
from keyplan.model.model import Model, path_of
from keyplan.plan.owners import owner_of
from keyplan.plan.types import SUMMED_DIGITS, most_digits, path_type
from keyplan.plan.view import View
from keyplan.units import parse_bytes, parse_count

FIELD_BYTES = 2
"""BSON: a type byte before each field's name, a zero byte behind it."""
ELEMENT_BYTES = 9
"""BSON: an element of an array has its type, its number as text, and a length and an end of its own."""
DOCUMENT_BYTES = 5
SHARED_BYTES = 2 * DOCUMENT_BYTES + 20
"""A document in a shared collection: its `_id` is one as well, and says of which entity it is."""
ENTRY_BYTES = 8
"""What an index entry has besides its values: the record's number and WiredTiger's cell."""

FEWEST_PACKED = 10
"""The fewest entries that documents of packed ones have on average: a second copy of single rows under another key is
what an index is for, and it costs less to write."""
TIMES = ("year", "month", "week", "day", "hour", "minute")
"""The truncations of moments by which rows come to be packed."""

SUM_DIGITS = LIMITS.digits + LOW_DIGITS
"""A sum has two fields, the second for its leading digits."""
PACKED_DIGITS = 7
"""What a sum has more over the entries of one document, of which 16 MB hold no ten million."""


def values_bytes(values: Mapping[str, float]) -> float:
    return sum(values.values()) + sum(len(name) + FIELD_BYTES for name in values)


def entry_bytes(view: View, facts: ViewFacts, at: tuple[str, ...] = ()) -> float:
    """The average size of a document without its embedded rows, of one of these, or of an index entry."""
    if view.kind == "shared":
        values = facts.embeds[".".join(at)].value_bytes if at else facts.value_bytes
        return values_bytes(values) + SHARED_BYTES
    if at:
        return values_bytes(facts.embeds[".".join(at)].value_bytes) + ELEMENT_BYTES
    if view.packed:
        around = {part.path for part in view.partition if part.cut is None}  # said once, in the `_id`
        return ELEMENT_BYTES + values_bytes({p: size for p, size in facts.value_bytes.items() if p not in around})
    if view.kind not in ("collection", "totals"):
        return facts.key_bytes + ENTRY_BYTES
    return values_bytes(facts.value_bytes) + DOCUMENT_BYTES + (facts.key_bytes if view.measures else 0)


def document_bytes(view: View, facts: ViewFacts) -> float:
    """The average size of a document with everything that it embeds, or all its entries."""
    if view.packed:
        return entry_bytes(view, facts) * facts.per_partition + facts.key_bytes + DOCUMENT_BYTES
    embedded = (entry_bytes(view, facts, tuple(c.split("."))) * e.per_parent for c, e in facts.embeds.items())
    return entry_bytes(view, facts) + sum(embedded)


def elements(facts: ViewFacts) -> float:
    """The average number of embedded rows of a document."""
    return sum(embed.per_parent for embed in facts.embeds.values())


def largest_bytes(view: View, facts: ViewFacts) -> float:
    """What the largest document takes: the largest row, and as many average embedded rows as there may be."""
    embedded = 0.0
    for chain, embed in facts.embeds.items():
        embedded += entry_bytes(view, facts, tuple(chain.split("."))) * embed.most_per_parent
    return max(entry_bytes(view, facts), min(facts.most_entry_bytes, LIMITS.document_bytes)) + embedded


def fit(model: Model, view: View, facts: ViewFacts) -> View | Rejection:
    """The view, or why MongoDB cannot keep it, or should not."""
    if any(part.ways > 1 for part in view.parts):
        return Rejection("a replica set needs no shards; a sharded cluster has its own")
    if len(view.parts) > LIMITS.index_fields:
        return Rejection(f"a key has at most {LIMITS.index_fields} fields")
    if view.kind == "elements":
        return _elements(model, view)
    if view.kind == "shared":
        return _shared(model, view, facts)
    if view.kind == "totals":
        return _totals(model, view)
    if view.kind != "collection":
        return _index(model, view)
    here = model.entities[view.entity]
    if view.parts and all(part.descending for part in view.parts):
        return Rejection("an '_id' is sorted upwards; it is read the other way round")
    if view.packed:
        return _packing(model, view, facts)
    if view.embeds:
        return _embedding(model, view, facts)
    for measure in view.measures:
        if measure.how == "sum" and most_digits(model, view.entity, measure.term) + SUMMED_DIGITS > SUM_DIGITS:
            return Rejection(f"'{measure.name}' may have more than the {SUM_DIGITS} digits that are held exactly")
    if view.measures or view.unique or any(part.cut in ("each", "words") for part in view.parts):
        return view
    size = entry_bytes(view, facts)
    if size > LIMITS.document_bytes:
        return Rejection(f"a document of {size:.0f} B is over the limit of {LIMITS.document_bytes} B")
    whole = set(here.stored) <= set(view.holds) and {part.path for part in view.parts} == set(here.key)
    behind = any(path_of(part.path, model, view.entity).roles for part in view.parts)
    if whole or behind or any(condition.path.roles for condition in view.where):
        return view
    keys = {*here.key, *(part.path for part in view.parts)}
    if _embeddable(model, view.entity) and set(view.holds) <= keys:
        return view  # where rows are embedded there is no collection of theirs that could have an index
    return Rejection("an index on the entity's own collection finds its rows, at no copy of them")


def _embeddable(model: Model, entity: str) -> bool:
    """Whether rows may be embedded in those that they refer to."""
    roles = (role for other in model.entities.values() for role in other.roles.values())
    return any(role.many and role.entity == entity and role.most for role in roles)


def _index(model: Model, view: View) -> View | Rejection:
    many = [part for part in view.parts if part.cut in ("each", "words")]
    if any(part.cut not in (None, "each", "words") for part in view.parts):
        return Rejection("an index is over plain fields; a range answers a truncation")
    if any(part.cut == "words" for part in view.parts) != (view.kind == "words"):
        return Rejection("words are found through an array of them")
    if len(many) > 1:
        return Rejection("an index has one array at most")
    if any(path_of(part.path, model, view.entity).roles for part in view.parts):
        return Rejection("an index is over the fields of its own documents")
    if any(c.op not in ("=", "!=", "in", "present", "missing") or c.cut for c in view.where):
        return Rejection("a partial index tests values and presence")
    states = by_column(view)
    if any(is_empty(path_type(model, view.entity, path)[0], some) for path, some in states.items()):
        return Rejection("no row is in all of these states")
    if len(states) == 1 and [*states] == [part.path for part in view.parts] == [*model.entities[view.entity].key]:
        return Rejection("an index of the '_id' alone has all rows")
    return view


def _elements(model: Model, view: View) -> View | Rejection:
    """An index over one field of the elements of an array, and over fields of the documents that they are in."""
    if any(part.cut is not None or part.descending for part in view.parts):
        return Rejection("an index over an array is over plain fields, in one direction")
    key = model.entities[view.entity].key
    if tuple(part.path for part in view.sort[-len(key) :]) != key:
        return Rejection("what an index over an array finds is in the order of the key at last")
    first = [part.path for part in view.parts[: -len(key)]]
    own = [path for path in first if not path_of(path, model, view.entity).roles]
    of = {owner_of(model, view.entity, path) for path in first if path not in own}
    if len(own) != 1 or own[0] not in {part.path for part in view.partition} or len(of) > 1 or "" in of:
        return Rejection("an index over an array is over one field of its elements, and fields of their document")
    if any(not path_type(model, view.entity, path)[0].is_ordered for path in first):
        return Rejection("an index over an array is over single values")
    return view


def _embedding(model: Model, view: View, facts: ViewFacts) -> View | Rejection:
    """Arrays are bounded, and the largest document stays within the target."""
    here = model.entities[view.entity]
    if {part.path for part in view.parts} != set(here.key):
        return Rejection("rows are embedded under their parent's key alone")
    most = target(model, "array_elements", LIMITS.target_elements)
    for embed in view.embeds:
        role = here.roles[embed.role]
        if embed.embeds:
            return Rejection("rows are embedded one level deep")
        bound = embed.limit or role.most or inf
        if bound == inf:
            return Rejection(f"nothing bounds '{embed.role}'; a 'max' on '{role.entity}.{role.field}' would")
        if bound > most:
            return Rejection(f"'{embed.role}' may have {bound:.0f} elements, and {most:.0f} is the most wanted")
    largest = largest_bytes(view, facts)
    if largest > LIMITS.document_bytes:
        return Rejection(f"the largest document has {largest:.3g} B, and MongoDB takes {LIMITS.document_bytes}")
    wanted = target(model, "document_bytes", LIMITS.target_bytes)
    if largest > wanted:
        return Rejection(f"the largest document has {largest:.3g} B, and {wanted:.3g} B is the most wanted")
    return view


def _shared(model: Model, view: View, facts: ViewFacts) -> View | Rejection:
    """A row and its children are found one after the other by the `_id`, which is sorted upwards or read backwards."""
    here = model.entities[view.entity]
    if len(view.embeds) != 1 or {part.path for part in view.parts} != set(here.key):
        return Rejection("a collection is shared by rows under their key and by the rows of one role")
    (embed,) = view.embeds
    if embed.entity == view.entity or embed.embeds or embed.limit is not None or not embed.sort:
        return Rejection("a collection is shared by rows of two entities, all of them")
    if len({part.descending for part in embed.sort}) > 1:
        return Rejection("an '_id' is sorted in one direction")
    if not set(model.entities[embed.entity].stored) <= set(embed.holds):
        return Rejection("a collection is shared by whole rows")
    if len(view.parts) + len(embed.sort) >= LIMITS.index_fields:
        return Rejection(f"a key has at most {LIMITS.index_fields} fields")
    size = max(entry_bytes(view, facts), entry_bytes(view, facts, (embed.role,)))
    if size > LIMITS.document_bytes:
        return Rejection(f"a document of {size:.0f} B is over the limit of {LIMITS.document_bytes} B")
    return view


def _packing(model: Model, view: View, facts: ViewFacts) -> View | Rejection:
    """Documents have enough entries to be worth it; how large the largest may become is `packed_bytes`."""
    if not view.partition or any(part.cut is not None for part in view.sort):
        return Rejection("packed entries are told apart by plain values within their partition")
    if model.entities[view.entity].ttl is not None and not any(part.cut in TIMES for part in view.partition):
        # A document goes with its last entry: one that goes on for ever would never lose those that have expired.
        return Rejection("what expires is packed by time, so that whole documents expire")
    if not _is_bounded(model, view):
        return Rejection("a document would grow with every row, and nothing says how far")
    if facts.per_partition < FEWEST_PACKED:
        return Rejection(f"{facts.per_partition:.3g} entries a document are few; an index brings them together")
    return view


def _totals(model: Model, view: View) -> View | Rejection:
    """Totals are exact: a sum has one field, and a minimum or maximum is one of the values."""
    for measure in view.measures:
        digits = most_digits(model, view.entity, measure.term)
        if measure.how == "sum" and digits + PACKED_DIGITS > LIMITS.digits:
            return Rejection(f"'{measure.name}' may have more than the {LIMITS.digits} digits that are held exactly")
        if measure.how in ("min", "max") and (measure.term is None or measure.term.path is None):
            return Rejection(f"'{measure.name}' is of no field")
    return view


def _is_bounded(model: Model, view: View) -> bool:
    """Whether a partition does not grow for ever: it ends with a stretch of time, or is of a row with a `max`."""
    fixed = {part.path for part in view.partition if part.cut is None}
    fields = {
        role.field: role.entity
        for role in model.entities[view.entity].roles.values()
        if not role.many and fixed.issuperset(role.columns)
    }
    backwards = (role for owner in fields.values() for role in model.entities[owner].roles.values() if role.many)
    limited = any(role.most and role.entity == view.entity and role.field in fields for role in backwards)
    return limited or any(part.cut in TIMES for part in view.partition)


def target(model: Model, name: str, default: float) -> float:
    """A number of the model's `targets: mongodb:`."""
    text = model.targets.get("mongodb", {}).get(name)
    if text is None:
        return float(default)
    try:
        return float(parse_bytes(str(text)) if name.endswith("bytes") else parse_count(str(text)))
    except ValueError as error:
        raise ArgumentError(f"targets.mongodb.{name}: {error}") from None
