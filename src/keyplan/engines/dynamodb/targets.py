"""What a model says of DynamoDB under `targets:`: each option is known, and its value one that means something."""

from __future__ import annotations

from math import inf

from keyplan.engines.calibration import check_options, checked, given
from keyplan.engines.dynamodb.limits import MB, Latencies
from keyplan.errors import ArgumentError
from keyplan.model.model import Model

BILLING = ("on_demand", "provisioned")
OPTIONS = ("billing", "latencies", "multi_attribute_keys", "partition_mb")


def check(model: Model) -> None:
    """Refuses options that are unknown or have no meaning, all of them at once."""
    checked(
        model,
        lambda: check_options(model, "dynamodb", OPTIONS),
        lambda: billing(model),
        lambda: multi_attribute_keys(model),
        lambda: partition_bytes(model),
        lambda: given(model, "dynamodb", "latencies", Latencies),
    )


def _said(model: Model, option: str) -> object:
    return model.targets.get("dynamodb", {}).get(option)


def billing(model: Model) -> str | None:
    """The mode that a model asks for; None: whichever is cheaper."""
    said = _said(model, "billing")
    if said is None:
        return None
    mode = str(said).replace("-", "_")
    if mode not in BILLING:
        raise ArgumentError(f"targets.dynamodb.billing: '{said}' is no mode; say on_demand or provisioned")
    return mode


def multi_attribute_keys(model: Model) -> bool:
    """Whether indexes may have keys of several attributes."""
    found = _said(model, "multi_attribute_keys")
    said = "false" if found is None else str(found)
    if said.lower() not in ("true", "false"):
        raise ArgumentError(f"targets.dynamodb.multi_attribute_keys: '{said}' is neither true nor false; say which")
    return said.lower() == "true"


def partition_bytes(model: Model) -> float | None:
    """The size beyond which item collections are cut, if the model names one; DynamoDB itself has none as long as a
    table has no local index."""
    said = _said(model, "partition_mb")
    if said is None:
        return None
    try:
        size = float(str(said))
    except ValueError:
        size = 0.0
    if not 0.0 < size < inf:
        raise ArgumentError(f"targets.dynamodb.partition_mb: '{said}' is no size; say a number of megabytes, as in 100")
    return size * MB
