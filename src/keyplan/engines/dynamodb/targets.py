"""What a model says of DynamoDB under `targets:`: each option is known, and its value one that means something."""

from __future__ import annotations

from collections.abc import Mapping

from keyplan.engines.calibration import check_options
from keyplan.errors import ArgumentError
from keyplan.model.model import Model

BILLING = ("on_demand", "provisioned")
OPTIONS = ("billing", "latencies", "multi_attribute_keys", "partition_mb")


def targets(model: Model) -> Mapping[str, object]:
    """The options, checked by name."""
    check_options(model, "dynamodb", OPTIONS)
    return model.targets.get("dynamodb", {})


def billing(model: Model) -> str | None:
    """The mode that a model asks for; None: whichever is cheaper."""
    said = targets(model).get("billing")
    if said is None:
        return None
    mode = str(said).replace("-", "_")
    if mode not in BILLING:
        raise ArgumentError(f"targets.dynamodb.billing: '{said}' is no mode; say on_demand or provisioned")
    return mode


def multi_attribute_keys(model: Model) -> bool:
    """Whether indexes may have keys of several attributes."""
    said = str(model.targets.get("dynamodb", {}).get("multi_attribute_keys", "false"))
    if said.lower() not in ("true", "false"):
        raise ArgumentError(f"targets.dynamodb.multi_attribute_keys: '{said}' is neither true nor false; say which")
    return said.lower() == "true"
