"""Values that may be missing, as text that a key can hold: the empty text stands for none.

Only groups are kept like this. They are compared for equality and never read by range, so that the order of the texts
does not matter.
"""

from __future__ import annotations

import json
from typing import Any

from keyplan.model.types import Type
from keyplan.model.values import from_json, to_json

MISSING = ""


def gap_text(type: Type, value: Any) -> str:
    """A canonical value as text that no other value has."""
    if value is None:
        return MISSING
    return json.dumps(to_json(type, value), ensure_ascii=False, separators=(",", ":"))


def from_gap_text(type: Type, text: str) -> Any:
    """The value that a text stands for; None if it was missing."""
    return None if text == MISSING else from_json(type, json.loads(text))
