"""What stores that are open at the same time have to agree on, so that each keeps true what the others read.

That is less than a whole design: indexes that a server keeps by itself may come and go, and so may patterns and
figures, under a store that is open.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.lockfile import encode, meaning
from keyplan.plan.view import View


def upkeep_hash(model: Model, design: Design, is_kept: Callable[[View], bool]) -> str:
    """A hash of rows, writes and the views that `is_kept` says we keep, and where they are."""
    views = {name: view for name, view in design.views.items() if is_kept(view)}
    places = [one for one in design.structures if any(view in views for view in one.views)]
    told = [
        model.name,
        [meaning(encode(part)) for part in (model.entities, model.writes, model.transactions)],
        encode(views),
        encode(design.homes),
        [[one.name, one.kind, [v for v in one.views if v in views], encode(one.settings)] for one in places],
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
