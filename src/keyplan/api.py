"""The public functions that join several layers; everything else public is where it is made.

Each imports the layers that it joins: who designs waits for no store, and who reads a lock file for no designer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from keyplan.engines import engine_for_url, get_engine
from keyplan.engines.base import Engine
from keyplan.engines.calibration import Calibration
from keyplan.engines.changing import Change
from keyplan.errors import ArgumentError, DesignError, KeyplanError, trouble_with
from keyplan.model.model import Model
from keyplan.plan.design import Design
from keyplan.plan.lockfile import lock_file, lock_text, locked_text, read_lock


def design(model: Model, engine: str, *, keep: Design | None = None, advise: bool = True) -> Design:
    """The cheapest design of a model on the engine of that name; what cannot be served is in `unserved`.

    With `keep`, the cheapest among those that have all structures of an earlier design. `advise=False` is quicker: it
    does not look for changes to the model that would serve more or cost less.
    """
    from keyplan.design import design as design_for

    _check(model)
    return design_for(model, get_engine(engine), keep=keep, advise=advise)


_design = design
"""The same, where an argument is called `design`."""


def _check(model: object) -> None:
    """Only `open` takes the name of a file: what else is done with a model wants it read and seen first."""
    if not isinstance(model, Model):
        raise ArgumentError(f"expected a model, got {type(model).__name__}; read one with keyplan.load_model(file)")


def explain(model: Model, design: Design, name: str | None = None) -> dict[str, Any]:
    """Why a design is as it is, as plain JSON: one pattern, write or structure, or everything at a glance.

    A structure is explained by who needs it, and by what the best design without it would cost.
    """
    from keyplan.design.report.explain import explain as explain_design

    engine = get_engine(design.engine)
    found = explain_design(model, engine, design, name)
    if engine.tells_requests and found["what"] in ("write", "transaction"):
        names = [name] if found["what"] == "write" else [part["name"] for part in found["writes"]]
        _add_request(model, engine, design, found, [str(each) for each in names])
    return found


def _add_request(model: Model, engine: Engine, design: Design, found: dict[str, Any], names: list[str]) -> None:
    """The one request by which a write or transaction is sent, in place of what it does to single entries; of a write
    that converges also those of a call that is too large for one."""
    from keyplan.store.rehearsal import rehearsed, rehearsed_with_many

    edits = [] if design.unserved.keys() & set(names) else rehearsed(model, engine, design, names)
    if edits:
        writes = [model.writes[each] for each in names]
        found["request"] = engine.request_words(model, design, writes, edits)
        if not writes[0].by_key:
            home = design.homes[writes[0].entity][0]
            found["each_of"] = max(
                (max(one["puts"], one["deletes"]) for one in found["touches"] if one["view"] == home), default=0
            )
        if found.get("how") == "converges":
            large = [
                {"rows": len({edit.row for edit in some if edit.do != "check"}), "items": len(some), "words": words}
                for some in rehearsed_with_many(model, engine, design, names[0])
                if (words := engine.request_words(model, design, writes, some))
            ]
            new = [
                number for number, one in enumerate(large) if one["words"] != large[number - 1]["words"] or not number
            ]
            ends = [*new[1:], len(large)]
            found["large"] = [
                {**large[number], "repeated": end - number > 1} for number, end in zip(new, ends, strict=True)
            ]
        for one in found.get("writes", [found]):
            one["steps"] = [{k: v for k, v in s.items() if k != "words" or s["op"] != "write"} for s in one["steps"]]


def generate(
    model: Model,
    *,
    scale: float = 1.0,
    seed: int = 0,
    counts: Mapping[str, int] | None = None,
    now: datetime | None = None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows with the statistics of the model, as `load` takes them: the same for the same arguments, one by one.

    `scale` multiplies the model's counts, `counts` replaces them by entity. The newest rows are from just before `now`,
    which is the beginning of 2025 unless told otherwise.
    """
    _check(model)
    from keyplan.data import generate as rows_of  # here, since it needs numpy, which a store does not

    return rows_of(model, scale=scale, seed=seed, counts=counts, now=now, as_arguments=True)


def save_lock(model: Model, design: Design) -> Path:
    """Writes the lock file of a design beside the model, to be committed with it; it is complete or not there."""
    path = lock_file(model, get_engine(design.engine).name)
    if path is None:
        raise DesignError(f"{model.file or model.name}: a lock file stands beside its model; put the model in a file")
    return _written(path, lock_text(model, design), DesignError)


def load_lock(model: Model, engine: str, *, stale: bool = False) -> Design | None:
    """The design in the lock file beside the model, or None; one made for another model is refused unless `stale`."""
    found = locked_text(model, get_engine(engine).name)
    return None if found is None else read_lock(found[0], None if stale else model, found[1])


def engine_of(url: str) -> str:
    """The name of the engine that a URL is for; raises UnknownEngineError if there is none."""
    return engine_for_url(url).name


def apply(
    model: Model,
    url: str,
    *,
    design: Design | None = None,
    dry: bool = False,
    destroy: bool = False,
    wait: bool = True,
    progress: Callable[[str], None] | None = None,
) -> list[str]:
    """Makes a server hold a design and records it there; returns what was done, or with `dry` what would be.

    The design is the one given, else that of the lock file, else the cheapest. Steps that destroy data begin with
    `destroys:`, and are refused unless `destroy` is set. What is found there and left as it is begins with `leaves:`.
    Without `wait`, stores that have the database open are not given the time to notice: say so only where there are
    none.
    """
    from keyplan.store.bulk import apply as steps
    from keyplan.store.naming import naming
    from keyplan.store.pump import persistent, run

    _check(model)
    engine = engine_for_url(url)
    chosen = design or load_lock(model, engine.name) or _design(model, engine.name)
    if dry and engine.lacks(url):
        found = steps.from_nothing(model, engine, chosen)
    else:
        port = engine.connect(url, model, chosen)
        try:
            with naming(port):
                if dry:
                    found = run(persistent(steps.difference(model, engine, chosen)), port)
                else:
                    work = steps.apply(model, engine, chosen, destroy=destroy, wait=wait, progress=progress)
                    found = run(persistent(work), port)
        finally:
            port.close()
    return [_said(change) for change in found.changes]


def _said(change: Change) -> str:
    """A step of `apply` in one line."""
    mark = "destroys: " if change.destructive else "leaves: " if change.only_said else ""
    return mark + change.summary


def calibrate(url: str, *, progress: Callable[[float], None] | None = None) -> Calibration:
    """Measures what work costs on a live server, in structures of its own that are removed again."""
    from keyplan.store.pump import patient, run

    engine = engine_for_url(url)
    with engine.scratch(url) as place:
        port = engine.connect(place, Model("calibration", {}), None)
        try:
            return run(patient(engine.calibrate(progress or (lambda share: None))), port)
        finally:
            port.close()


def save_calibration(model: Model, found: Calibration) -> Path:
    """Writes what was measured to a file beside the model, which its `targets` can name."""
    if not Path(model.file).is_file():
        raise ArgumentError(
            f"{model.file or model.name}: a calibration stands beside its model; put the model in a file"
        )
    path = Path(model.file).with_suffix(f".{found.engine}.calibration.yaml")
    return _written(path, f"# {found.measured}\n{found.text}", ArgumentError)


def _written(path: Path, text: str, failure: type[KeyplanError]) -> Path:
    """Writes a file, which is complete then, or as it was before."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        return partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise failure(f"{path}: it cannot be written: {trouble_with(error)}") from error
