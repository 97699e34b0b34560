"""How many of a write's calls are made together with others, by the transactions of a model."""

from __future__ import annotations

from collections.abc import Iterator

from keyplan.engines.work import CostModel
from keyplan.model.model import Model
from keyplan.model.write import Transaction, Write, has_to_be_found
from keyplan.plan.design import Finding
from keyplan.units import format_rate

SAME = 1.01
"""Rates are rounded by hand: what differs by less than that says the same."""


def shares_in_transactions(model: Model) -> dict[str, float]:
    """Per write that transactions call: the share of its calls that are made by them. Its rate counts these, too."""
    return {
        name: min(1.0, calls / rate) if (rate := model.writes[name].traffic.rate) else 1.0
        for name, calls in _calls(model).items()
    }


def more_than_said(model: Model) -> Iterator[Finding]:
    """Writes that transactions call more often than their own rate says."""
    for name, calls in _calls(model).items():
        write = model.writes[name]
        rate = write.traffic.rate
        if calls > rate * SAME:
            yield Finding(
                "warning",
                f"writes.{name}",
                f"'{name}' has the rate {format_rate(rate)}, but transactions call it {format_rate(calls)}",
                "raise its rate, which counts these calls, or lower that of the transaction",
                {"rate": rate, "calls": calls},
            )


def is_read_to_return(model: Model, write: Write, costs: CostModel) -> bool:
    """Whether a call that is made together with others has to read the row that it returns, and reads it for that
    alone."""
    known = write.kind == "create" or (write.kind == "delete" and bool(write.children))
    known = known or has_to_be_found(model.entities[write.entity], write)
    return bool(write.returns) and not costs.returns_together and not known


def _calls(model: Model) -> dict[str, float]:
    """Calls per second of each write by transactions; one of a single row is as a call of its own."""
    found: dict[str, float] = {}
    for transaction in model.transactions.values():
        if sum(part.usual for part in transaction.parts) > 1:
            for part in transaction.parts:
                found[part.write] = found.get(part.write, 0.0) + part.usual * rate_of(model, transaction)
    return found


def rate_of(model: Model, transaction: Transaction) -> float:
    """Calls per second of a transaction."""
    traffic = transaction.traffic or model.writes[transaction.parts[0].write].traffic
    return traffic.rate
