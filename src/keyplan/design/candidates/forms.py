"""Forms of a candidate view that fit the engine: as it is, in shards, in time buckets with a directory of them, or with
only the first of its children.

Neither shards nor buckets are dimensions of the space: a partition gets as many shards, or the largest bucket, as keep
it within what the engine allows; where that is more beside another entry of its rows than without one, there are both
forms. A directory is a view with measures that counts the rows of each bucket; whether one
is kept is the program's choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil

from keyplan.design.candidates.facts import Facts
from keyplan.design.candidates.overflow import Wanted, overflowing
from keyplan.design.statistics.buckets import bucket_of
from keyplan.design.statistics.derived import CUT_SECONDS
from keyplan.design.statistics.spread import fields_of, spreads, usual_entries
from keyplan.engines.base import Kind
from keyplan.engines.work import CostModel, Rejection, ViewFacts
from keyplan.model.model import Model, path_of
from keyplan.plan.view import COPIES, COUNT, Measure, Part, View

CUTS = ("year", "month", "week", "day", "hour")
"""The buckets that there are, the largest first."""
MOST_SHARDS = 200


class Forms:
    """Finds the forms of candidate views for one model on one engine."""

    def __init__(
        self, model: Model, facts: Facts, kinds: Mapping[str, Kind], costs: CostModel, wanted: Wanted | None = None
    ) -> None:
        self.model = model
        self.facts = facts
        self.kinds = kinds
        self.costs = costs
        self.wanted: Wanted = wanted or {}
        """Which children are wanted with the rows that have them."""
        self.refused: dict[str, str] = {}
        """Per entity: why a view of it is no candidate because of its size."""
        self.no_keys: dict[tuple[str, str], str] = {}
        """Per entity and field: why it, or its elements or words, are no keys of a view."""

    def of(self, view: View, readers: float = 0.0) -> list[tuple[View, ViewFacts]] | Rejection:
        """The forms in which a view is a candidate where nothing else is kept of its rows: one as a rule; else at most
        a sharded and a bucketed one, or a few with only the first children."""
        if view.packed:
            return self._packed(view, readers)
        crowded = self.too_many(view)
        if crowded:
            return Rejection(crowded)
        plain = self.facts.of(view, readers)
        fitted = self.costs.fit(view, plain)
        tried = []
        if isinstance(fitted, Rejection):
            if fitted.path:
                self.no_keys[view.entity, fitted.path] = fitted.reason
            shorter = self._overflowing(view, readers) if view.embeds and self.kinds[view.kind].subsets else []
            if shorter or self.costs.partition_bytes is None:
                return shorter or fitted
            reason = fitted.reason
        else:
            known = plain if fitted is view else self.facts.of(fitted, readers)
            reason = self.too_large(fitted, known)
            if not reason:
                return [(fitted, known)]
            tried.append(self._sharded(fitted, known))
        tried.append(self._bucketed(view, readers))
        found = []
        for form in tried:
            if form is not None:
                known = self.facts.of(form, readers)
                if not self.too_large(form, known):
                    found.append((form, known))
        if not found and not isinstance(fitted, Rejection):
            self.refused[view.entity] = reason
        return found or Rejection(reason)

    def beside_another(self, view: View, facts: ViewFacts) -> tuple[View, ViewFacts] | None:
        """The form of a view that fits, with the shards that it takes where each of its rows has another entry besides,
        which is written in one step with it; None if it has enough of them, or if no number would do."""
        if self.kinds[view.kind].kept_by_engine or facts.hottest_together >= facts.hottest_writes:
            return None
        if self.costs.fit(view, written_together(facts)) == view:
            return None
        whole = replace(view, partition=tuple(part for part in view.partition if part.ways == 1))
        spread = self.costs.fit(whole, written_together(self.facts.of(whole, facts.hottest_reads)))
        if isinstance(spread, Rejection) or _shards(spread) <= _shards(view):
            return None
        known = self.facts.of(spread, facts.hottest_reads)
        return None if self.too_large(spread, known) else (spread, known)

    def _packed(self, view: View, readers: float) -> list[tuple[View, ViewFacts]] | Rejection:
        """The view with a value per partition or, where that is too large, per time bucket of it: of every length that
        is small enough, since what is written into a large value walks over it, and many small ones take many reads."""
        found = []
        for form in (view, *self._cut(view)):
            fitted = self.costs.fit(form, self.facts.of(form, readers))
            if not isinstance(fitted, Rejection):
                known = self.facts.of(fitted, readers)
                if not self.too_large(fitted, known):
                    found.append((fitted, known))
                    if form is view:
                        break
        return found or Rejection("no value would be small enough")

    def _overflowing(self, view: View, readers: float) -> list[tuple[View, ViewFacts]]:
        """The view with only the first children of those roles of which a row may have too many."""
        whole = [embed for embed in view.embeds if embed.limit is None]
        large = [embed.role for embed in whole if self._is_refused(replace(view, embeds=(embed,)), readers)]
        forms = overflowing(self.facts.statistics, view, large or [embed.role for embed in whole], self.wanted)
        return [(form, self.facts.of(form, readers)) for form in forms if not self._is_refused(form, readers)]

    def _is_refused(self, view: View, readers: float) -> bool:
        return isinstance(self.costs.fit(view, self.facts.of(view, readers)), Rejection)

    def too_many(self, view: View) -> str:
        """Why the usual row has more entries in a view than one atomic request writes; empty if it has not."""
        limit = self.costs.atomic_entries
        if limit is None or self.kinds[view.kind].kept_by_engine or not spreads(view):
            return ""
        many = usual_entries(self.model, view)
        if many <= limit:
            return ""
        part = max(spreads(view), key=lambda part: part.cut == "words")
        listed = " and ".join(f"'{path}'" for path in fields_of(part))
        what = "elements" if part.cut == "each" else "words"
        reason = f"a row has {many:.0f} {what} in {listed} on average, and one request writes {limit} entries at most"
        self.no_keys[view.entity, part.path] = reason
        return reason

    def too_large(self, view: View, facts: ViewFacts) -> str:
        """Why the largest partition of a view holds more than it should; empty if it does not."""
        limit = self.costs.packed_bytes if view.packed else self.costs.partition_bytes
        if view.packed and limit is None:
            return "nothing is packed on this engine"
        if limit is None or not (self.kinds[view.kind].partitioned or view.packed) or view.unique:
            return ""
        size = self._largest(view, facts)
        if size <= limit:
            return ""
        return f"its largest partition would hold {size / 1e6:.3g} MB of the {limit / 1e6:.3g} MB that one should"

    def _largest(self, view: View, facts: ViewFacts) -> float:
        """The bytes of the largest partition."""
        size = self.costs.entry_bytes(view, facts)
        for chain, embed in facts.embeds.items():
            size += self.costs.entry_bytes(view, facts, tuple(chain.split("."))) * embed.per_parent
        return size * facts.hottest_rows

    def _sharded(self, view: View, facts: ViewFacts) -> View | None:
        """The view with as many shards as its largest partition needs, which may be more than its size implies: the
        number of its shard stands in the key of every entry."""
        if not self._can_be_split(view) or self.costs.partition_bytes is None:
            return None
        fewest = _shards(view) * ceil(self._largest(view, facts) / self.costs.partition_bytes)
        others = tuple(part for part in view.partition if part.ways == 1)
        for ways in range(fewest, MOST_SHARDS + 1):
            form = replace(view, partition=(*others, Part("", ways=ways)))
            if not self.too_large(form, self.facts.of(form, facts.hottest_reads)):
                return form
        return None

    def _bucketed(self, view: View, readers: float) -> View | None:
        """The view in the largest time buckets that fit, cut by the moment that its sort key begins with."""
        for form in self._cut(view):
            fitted = self.costs.fit(form, self.facts.of(form, readers))
            if not isinstance(fitted, Rejection) and not self.too_large(fitted, self.facts.of(fitted, readers)):
                return fitted
        return None

    def _cut(self, view: View) -> Iterator[View]:
        """The view in time buckets, the largest first, by the moment that its sort key begins with."""
        if not self._can_be_split(view) or bucket_of(view) is not None:
            return
        first = view.sort[0]
        if not first.path or first.cut is not None or first.ways > 1:
            return
        kind = self.model.column(view.entity, path_of(first.path, self.model, view.entity)).type.kind
        if kind in ("timestamp", "date"):
            for cut in CUTS if kind == "timestamp" else CUTS[:-1]:
                yield replace(view, partition=(*view.partition, Part(first.path, cut)))

    def _can_be_split(self, view: View) -> bool:
        copied = any(part.cut == COPIES for part in view.parts)
        return bool(view.sort) and not (view.embeds or view.measures or view.unique or copied)

    # directories

    def directories(self, view: View) -> Iterator[View]:
        """The views that could say which buckets of a bucketed view are not empty."""
        bucket = bucket_of(view)
        if bucket is None:
            return
        others = tuple(part for part in view.partition if part.ways == 1 and part is not bucket)
        paths = [path_of(part.path, self.model, view.entity) for part in (*others, bucket)]
        if any(part.cut is not None for part in others) or any(path.roles for path in paths):
            return
        count = (Measure("count", None, COUNT),)
        for kind in self.kinds.values():
            if not kind.kept_by_engine and "count" in kind.measures:
                partition, sort = (others, (bucket,)) if kind.partitioned else ((), (*others, bucket))
                yield View("", view.entity, kind.name, partition, sort, (), (), view.where, count)


def written_together(facts: ViewFacts) -> ViewFacts:
    """The facts of a view, each entry of which is written in one step with another one."""
    return replace(facts, hottest_together=facts.hottest_writes)


def _shards(view: View) -> int:
    return max((part.ways for part in view.partition), default=1)


def is_directory(view: View) -> bool:
    """Whether a view counts rows by time within plain values."""
    if not view.measures or not view.parts or any(part.ways > 1 or part.or_missing for part in view.parts):
        return False
    *others, last = view.parts
    return last.cut in CUT_SECONDS and all(part.cut is None for part in others)
