"""Intents: what a write that is too large for one atomic request has begun and must be finished by somebody.

They stand in a view of their own, which engines with a limit on atomic requests keep beside a design's views. An
intent names a row that others copy from, as it was and as it is now; there is at most one per row.
"""

from __future__ import annotations

from keyplan.model.entity import Entity, Field
from keyplan.model.model import Model
from keyplan.model.types import Type
from keyplan.plan.view import Part, View

INTENTS = "$intents"

INTENT_MODEL = Model(
    INTENTS,
    Model.derive(
        {
            INTENTS: Entity(
                INTENTS,
                {
                    "row": Field("row", Type("string", 60, 900)),
                    "text": Field("text", Type("text", 1000, 350_000)),
                },
                ("row",),
            )
        }
    ),
)
INTENT_VIEW = View(INTENTS, INTENTS, "table", (), (Part("row"),), ("row", "text"))
