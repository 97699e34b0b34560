"""keyplan: access patterns in, the cheapest schema that serves them out, and a store that runs it.

Everything public is listed in `__all__`. Each name is loaded when it is first used, so that `import keyplan` imports no
driver, no solver and no parser, and next to nothing at all: what goes on here is before the command line can answer
Ctrl-C with less than a traceback.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False  # for type checkers it is true; that of `typing` would take longer than all the rest

if TYPE_CHECKING:
    from keyplan.api import (
        apply,
        calibrate,
        design,
        engine_of,
        explain,
        generate,
        load_lock,
        save_calibration,
        save_lock,
    )
    from keyplan.design.report.difference import difference
    from keyplan.design.report.document import document
    from keyplan.design.report.document_schema import document_schema
    from keyplan.design.report.picture import picture
    from keyplan.emit import emit
    from keyplan.engines import engine_names
    from keyplan.engines.calibration import Calibration
    from keyplan.errors import (
        AccessError,
        ArgumentError,
        ConflictError,
        CursorError,
        DesignError,
        DesignMismatchError,
        EngineError,
        KeyplanError,
        MissingDriverError,
        ModelError,
        OversizeError,
        Problem,
        RangeError,
        StorageError,
        ThrottledError,
        UnavailableError,
        UncertainError,
        UnknownEngineError,
        UnsupportedError,
    )
    from keyplan.model.interchange import arguments_from_text, row_from_json, to_plain
    from keyplan.model.json_text import parse_json
    from keyplan.model.load import load_model, parse_model
    from keyplan.model.model import Model
    from keyplan.model.schema import json_schema
    from keyplan.plan.design import Design
    from keyplan.store.bulk.verify import Verification
    from keyplan.store.open import open, open_async

__all__ = [
    "AccessError",
    "ArgumentError",
    "Calibration",
    "ConflictError",
    "CursorError",
    "Design",
    "DesignError",
    "DesignMismatchError",
    "EngineError",
    "KeyplanError",
    "MissingDriverError",
    "Model",
    "ModelError",
    "OversizeError",
    "Problem",
    "RangeError",
    "StorageError",
    "ThrottledError",
    "UnavailableError",
    "UncertainError",
    "UnknownEngineError",
    "UnsupportedError",
    "Verification",
    "apply",
    "arguments_from_text",
    "calibrate",
    "design",
    "difference",
    "document",
    "document_schema",
    "emit",
    "engine_names",
    "engine_of",
    "explain",
    "generate",
    "json_schema",
    "load_lock",
    "load_model",
    "open",
    "open_async",
    "parse_json",
    "parse_model",
    "picture",
    "row_from_json",
    "save_calibration",
    "save_lock",
    "to_plain",
]

__version__ = "0.1.0"

_HOMES = {
    "Calibration": "keyplan.engines.calibration",
    "Design": "keyplan.plan.design",
    "Model": "keyplan.model.model",
    "Verification": "keyplan.store.bulk.verify",
    "apply": "keyplan.api",
    "arguments_from_text": "keyplan.model.interchange",
    "calibrate": "keyplan.api",
    "design": "keyplan.api",
    "difference": "keyplan.design.report.difference",
    "document": "keyplan.design.report.document",
    "document_schema": "keyplan.design.report.document_schema",
    "emit": "keyplan.emit",
    "engine_names": "keyplan.engines",
    "engine_of": "keyplan.api",
    "explain": "keyplan.api",
    "generate": "keyplan.api",
    "json_schema": "keyplan.model.schema",
    "load_lock": "keyplan.api",
    "load_model": "keyplan.model.load",
    "open": "keyplan.store.open",
    "open_async": "keyplan.store.open",
    "parse_json": "keyplan.model.json_text",
    "parse_model": "keyplan.model.load",
    "picture": "keyplan.design.report.picture",
    "row_from_json": "keyplan.model.interchange",
    "save_calibration": "keyplan.api",
    "save_lock": "keyplan.api",
    "to_plain": "keyplan.model.interchange",
    **dict.fromkeys((name for name in __all__ if name.endswith(("Error", "Problem"))), "keyplan.errors"),
}


class _Package(ModuleType):
    """Keeps Python from hiding the functions `design` and `emit` behind the packages they live in.

    Whoever loads a subpackage binds it as an attribute of its parent, so `keyplan.design` would be a function or a
    package depending on what was imported before.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module("keyplan.errors")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'keyplan' has no attribute '{name}'")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
