"""Searches for rows of a shared collection together with the children beside them: one range of `_id`s for each.

The parent's document comes first, whichever way its children are sorted, and then these in their order. So where the
first children are wanted in that order, a find brings as many and the parent, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from keyplan.engines.codec import Answer, Ask, Reader, Span
from keyplan.engines.mongodb.layout import ID_INDEX, OF, Place
from keyplan.engines.mongodb.operations import Find, Found, More
from keyplan.engines.mongodb.values import ID, TOP, Document, rows_decoder, tuple_encoder
from keyplan.engines.rounds import Reply, Row
from keyplan.errors import UnsupportedError
from keyplan.model.entity import EXPIRES
from keyplan.model.model import Model
from keyplan.plan.children import first_of
from keyplan.plan.steps import Search


@dataclass(slots=True)
class FamilyAsk(Ask):
    """A find for one row and its children, which may come in chunks."""

    find: Find
    """The find that it began with."""
    before: list[Document] = field(default_factory=list)
    """What the chunks before brought."""


class FamilyReader(Reader):
    """A Search over the rows of a shared collection, with their children along."""

    def __init__(self, model: Model, place: Place, search: Search) -> None:
        if list(search.along) != list(place.beside):
            raise UnsupportedError(f"view '{search.view}' does not have '{', '.join(search.along)}' beside its rows")
        for path in search.takes:
            if path not in place.slots:
                raise UnsupportedError(f"view '{search.view}' does not hold '{path}'")
        ((self._role, child),) = place.beside.items()
        self._place = place
        self._names = [slot.field.partition(".")[2] for slot in place.key]
        self._values = tuple_encoder(place.key)
        self._rows = rows_decoder(place.where, [place.slots[path] for path in search.takes], {})
        self._children = rows_decoder(child.where, tuple(child.slots.values()), {})
        self._expires = EXPIRES in child.slots
        self._sort = [(ID, -1 if child.backwards else 1)]
        embed = place.view.embed_at(child.at)
        assert embed is not None
        most = first_of(model, place.entity, embed, search.along[self._role])
        self._limit = 0 if most is None else most + 1

    def ask(self, spans: Sequence[Span], limit: int | None, *, strong: int) -> list[Ask]:
        finds = [self._find(span, strong) for span in spans]
        return [FamilyAsk(find, (number,), find) for number, find in enumerate(finds)]

    def _find(self, span: Span, strong: int) -> Find:
        fixed = (*span.partition, *span.prefix)
        if len(fixed) != len(self._names):
            raise UnsupportedError(f"{self._place.where}: a row comes with its children by its whole key")
        begin = dict(zip(self._names, self._values(fixed), strict=True))
        within = {ID: {"$gte": begin, "$lt": {**begin, OF: TOP}}}
        return Find(self._place.collection, within, None, self._sort, self._limit, ID_INDEX, strong)

    def answer(self, ask: Ask, reply: Reply) -> Answer:
        if not isinstance(reply, Found):
            raise reply
        assert isinstance(ask, FamilyAsk)
        documents = [*ask.before, *reply.documents] if ask.before else reply.documents
        if reply.cursor is not None:
            return Answer(([],), FamilyAsk(More(reply.cursor), ask.spans, ask.find, documents))
        tag = self._place.tag
        if not documents or documents[0][ID][OF] != tag:
            return Answer(([],))  # children may be there without their parent
        (row,) = self._rows(documents[:1])
        children: list[Row] = self._children(documents[1:])
        return Answer(([{**row, self._role: children}],), self._more(ask, len(documents)))

    def _more(self, ask: FamilyAsk, many: int) -> FamilyAsk | None:
        """The find for twice as many children, where some of those that came may have expired."""
        limit = ask.find.limit
        if not self._expires or not limit or many < limit:
            return None
        wider = replace(ask.find, limit=2 * limit - 1)
        return FamilyAsk(wider, ask.spans, wider)
