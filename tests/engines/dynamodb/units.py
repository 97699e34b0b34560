"""Read and write units of items as they are stored: the formulas by which DynamoDB charges, each once.

Designs price what is spread around an average (`cost.py`); this is what `ConsumedCapacity` reports of the items
themselves. Sources as in `limits.py`: sizes and transactions.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from keyplan.engines.dynamodb.limits import LIMITS
from keyplan.engines.dynamodb.values import item_bytes

Item = Mapping[str, dict[str, Any]]


def read_units(size: float, *, strong: bool = False, transaction: bool = False) -> float:
    """Units of reading so many bytes in one go: an item, whether it is there or not, or a page of a Query or Scan.

    A page is rounded up as a whole, before any filter; each item of a BatchGetItem by itself.

    >>> [read_units(0), read_units(4096), read_units(4097), read_units(4097, strong=True)]
    [0.5, 0.5, 1.0, 2.0]
    """
    rounded = max(1, ceil(size / LIMITS.read_unit_bytes))
    if transaction:
        return float(rounded * LIMITS.transaction_factor)
    return rounded * (1.0 if strong else LIMITS.eventual_read_factor)


def write_units(before: float, after: float, *, transaction: bool = False) -> float:
    """Units of putting, updating or deleting an item of the table: the larger of its sizes before and after.

    An item that is not there has size 0, and a condition that fails is charged as well.

    >>> [write_units(0, 1024), write_units(3000, 10), write_units(3000, 0, transaction=True)]
    [1.0, 3.0, 6.0]
    """
    rounded = max(1, ceil(max(before, after) / LIMITS.write_unit_bytes))
    return float(rounded * (LIMITS.transaction_factor if transaction else 1))


def index_write_units(before: Item | None, after: Item | None, keys: tuple[str, ...]) -> float:
    """Units that an index takes when its entry changes: None where the item has none.

    Nothing if nothing that the index projects changes; the old entry's size and the new one's if the key of the
    entry changes, since DynamoDB deletes the one and puts the other.
    """
    if before == after:
        return 0.0
    if before is None or after is None:
        only = before if before is not None else after
        assert only is not None
        return write_units(0, item_bytes(only))
    if any(before[key] != after[key] for key in keys):
        return write_units(item_bytes(before), 0) + write_units(0, item_bytes(after))
    return write_units(item_bytes(before), item_bytes(after))
