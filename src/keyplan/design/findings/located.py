"""Where in the model's file a finding belongs."""

from __future__ import annotations

from dataclasses import replace

from keyplan.model.model import Model
from keyplan.plan.design import Finding


def located(model: Model, finding: Finding) -> Finding:
    """The finding with the line of what its path names, such as `entities.Order`; unchanged if that has none."""
    section, _, name = finding.path.partition(".")
    lines = {
        "entities": {one.name: one.line for one in model.entities.values()},
        "patterns": {one.name: one.line for one in model.patterns.values()},
        "writes": {one.name: one.line for one in model.writes.values()},
        "transactions": {one.name: one.line for one in model.transactions.values()},
    }
    return replace(finding, line=lines.get(section, {}).get(name, finding.line))
