"""Sums that do not fit into the request of the rows that they count: they are added behind it, each once.

An order of fifty products may count in fifty groups, which together with its own entries is more than the engine does
at once. Then an intent is written along with the rows that says what is still to be added to which sums. That follows
in chunks, and each takes itself off the intent in the same request: whoever else works on it, after a crash or at the
same time, adds what is left and nothing twice. The order in which sums are added to does not matter, so that nobody
has to wait for it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from keyplan.engines.rounds import Pause, Proc
from keyplan.errors import ConflictError, UncertainError
from keyplan.model.values import from_json, to_json
from keyplan.plan.edits import Edit, Test
from keyplan.plan.intents import INTENTS
from keyplan.plan.late_sums import may_come_late
from keyplan.plan.types import part_type
from keyplan.plan.view import View
from keyplan.store.steps import sent
from keyplan.store.writing.changes import Batch

if TYPE_CHECKING:
    from keyplan.store.writing.intents import Intents

ATTEMPTS = 20
LONGEST = 300_000
"""Characters of an intent: all of it has to fit into one entry."""


@dataclass(frozen=True)
class Owed:
    """What rows that were written have yet to add to sums."""

    name: str
    label: str
    sums: tuple[Edit, ...]
    text: str
    """As it stands in the intent."""


class Sums:
    """Leaves sums out of a request that is too large, and makes up for it."""

    def __init__(self, intents: Intents) -> None:
        self.intents = intents
        self.model = intents.model
        self.views = {name: place.view for name, place in intents.mutator.groups.named.items()}
        self.late = {name for name, view in self.views.items() if may_come_late(self.model, view)}
        """Those that may be left out. Of the others, too, something may be owed: a model that came later reads them
        strongly."""

    def left_out(self, batch: Batch, label: str) -> tuple[Batch, Edit] | None:
        """The batch without its sums, and the intent to be written along; None if there are none."""
        sums = tuple(replace(edit, row=0) for edit in batch.edits if self.can_wait(edit))
        # Each attempt has one of its own: an earlier one whose reply was lost may have to be made up for as well.
        owed = self.owed(f"sums {secrets.token_hex(16)}", label, sums)
        if not sums or len(owed.text) > LONGEST:
            return None
        edits = [edit for edit in batch.edits if not self.can_wait(edit)]
        homes = {edit.row: number for number, edit in enumerate(edits) if edit.returning}
        values = {"row": owed.name, "text": owed.text}
        intent = Edit(INTENTS, "put", (owed.name,), values=values, expect="absent")
        return replace(batch, edits=edits, homes=homes), intent

    def can_wait(self, edit: Edit) -> bool:
        return edit.do == "add" and edit.view in self.late and not edit.tests and not edit.values

    def pay_all(self) -> Proc[None]:
        """Adds what is owed, by ourselves or by others who were cut off: nobody else would come upon that."""
        left = yield from self.intents.pending()
        for one in left:
            if isinstance(one, Owed):
                yield from self.pay(one)

    def pay(self, owed: Owed) -> Proc[bool]:
        """Adds what is left, and forgets the intent with the last of it; False if others were always faster."""
        most = self.intents.most
        assert most is not None
        attempt = 0
        while attempt < ATTEMPTS:
            now, rest = owed.sums[: most - 1], self.owed(owed.name, owed.label, owed.sums[most - 1 :])
            reply = yield from sent(self.intents.codec, [*now, self.changed(owed, rest)])
            if not isinstance(reply, Exception):
                if not rest.sums:
                    return True
                owed = rest
                continue
            if not isinstance(reply, ConflictError | UncertainError):
                raise reply
            found = yield from self.found(owed.name)
            if found is None:
                return True  # somebody else has added the last of it
            owed = found
            attempt += 1
            yield Pause(0.02)
        return False

    def forget(self, views: Collection[str]) -> Proc[None]:
        """Takes the sums of some views off all intents: they are about to be made anew from the rows."""
        left = yield from self.intents.pending()
        for name in [one.name for one in left if isinstance(one, Owed)]:
            owed = yield from self.found(name)
            while owed is not None and any(edit.view in views for edit in owed.sums):
                rest = self.owed(name, owed.label, [edit for edit in owed.sums if edit.view not in views])
                reply = yield from sent(self.intents.codec, [self.changed(owed, rest)])
                if isinstance(reply, Exception) and not isinstance(reply, ConflictError | UncertainError):
                    raise reply
                owed = yield from self.found(name)

    def changed(self, owed: Owed, rest: Owed) -> Edit:
        """The edit by which an intent, if it still says what was read, says what is left."""
        tests = (Test("text", "=", owed.text),)
        if not rest.sums:
            return Edit(INTENTS, "delete", (owed.name,), expect="present", tests=tests)
        values = {"row": owed.name, "text": rest.text}
        return Edit(INTENTS, "put", (owed.name,), values=values, expect="present", tests=tests)

    def found(self, name: str) -> Proc[Owed | None]:
        """What an intent says now; None if there is nothing left to do."""
        left = yield from self.intents.pending()
        return next((one for one in left if isinstance(one, Owed) and one.name == name), None)

    def owed(self, name: str, label: str, sums: Sequence[Edit]) -> Owed:
        views = list(dict.fromkeys(edit.view for edit in sums))
        listed = [[views.index(edit.view), self.key_text(edit), amounts_text(edit.adds)] for edit in sums]
        told = [self.told(self.views[view]) for view in views]  # once, since all of it is written again with each chunk
        text = json.dumps({"views": told, "sums": listed, "label": label}, separators=(",", ":"))
        return Owed(name, label, tuple(sums), text)

    def read(self, name: str, text: str) -> Owed:
        """What an intent says of the views that there still are: whoever takes one away, or fills another in its place,
        does that from the rows."""
        data = json.loads(text)
        known = {self.told(view): view for view in self.views.values()}
        views = [known.get(told) for told in data["views"]]
        sums = []
        for number, key, adds in data["sums"]:
            view = views[number]
            if view is not None:
                types = [part_type(self.model, view.entity, part) for part in view.parts]
                values = tuple(from_json(type, value) for type, value in zip(types, key, strict=True))
                sums.append(Edit(view.name, "add", values, adds=amounts(adds)))
        return Owed(name, data["label"], tuple(sums), text)

    def told(self, view: View) -> str:
        """What a view sums up, whatever it is called."""
        parts = [[str(part) for part in some] for some in (view.partition, view.sort)]
        measures = [measure.name for measure in view.measures]
        return json.dumps([view.entity, *parts, [str(one) for one in view.where], measures], ensure_ascii=True)

    def key_text(self, edit: Edit) -> list[Any]:
        view = self.views[edit.view]
        types = [part_type(self.model, view.entity, part) for part in view.parts]
        return [to_json(type, value) for type, value in zip(types, edit.key, strict=True)]


def amounts_text(adds: Any) -> dict[str, Any]:
    """Decimals as text, other numbers as they are."""
    return {name: f"{value:f}" if isinstance(value, Decimal) else value for name, value in adds.items()}


def amounts(adds: dict[str, Any]) -> dict[str, Any]:
    return {name: Decimal(value) if isinstance(value, str) else value for name, value in adds.items()}
