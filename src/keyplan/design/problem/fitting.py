"""Candidates in the forms that an engine can keep them in, under the names that a problem has for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, combinations

from keyplan.design.candidates.facts import Facts
from keyplan.design.candidates.forms import Forms
from keyplan.design.candidates.given import identity
from keyplan.design.candidates.homes import Homes
from keyplan.design.candidates.local import bases_of, needs_base, under_partitions
from keyplan.design.candidates.match import key_shape, match_key
from keyplan.design.candidates.required import purposes
from keyplan.design.candidates.totals import totals_over
from keyplan.design.needs.need import believed, need_of_pattern
from keyplan.design.options.goals import Heat
from keyplan.design.statistics.derived import Statistics, peak_rate, zipf_top
from keyplan.engines.base import Kind
from keyplan.engines.work import CostModel, Rejection, ViewFacts
from keyplan.model.model import Model
from keyplan.model.pattern import Param, Pattern
from keyplan.plan.view import View

ANY_READERS = 4
"""Of so many patterns that read the same key, any may be given entries of their own."""


def fitted_views(
    model: Model,
    statistics: Statistics,
    forms: Forms,
    candidates: list[View],
    without: Callable[[View], bool],
    refused: dict[str, str],
) -> tuple[dict[str, View], dict[str, ViewFacts]]:
    """The candidates in the forms that the engine can keep them in, and what is known of each.

    Says of homes and guards that cannot be kept, in `refused`, why not.
    """
    views: dict[str, View] = {}
    found: dict[str, ViewFacts] = {}
    needs = [
        (heat_of(statistics, pattern), believed(statistics, need_of_pattern(model, pattern)))
        for pattern in model.patterns.values()
    ]
    known_readers: dict[tuple[object, ...], list[float]] = {}
    facts, kinds, costs = forms.facts, forms.kinds, forms.costs
    known = _Known(candidates)
    more: list[tuple[View, ViewFacts]] = []
    for view in candidates:
        if kinds[view.kind].local:
            continue
        shape = key_shape(view)
        if shape not in known_readers:
            known_readers[shape] = [
                heat.per_second * heat.share
                for heat, need in needs
                if need.entity == view.entity and need.fold is None
                if (key := match_key(model, statistics, kinds[view.kind], view, need)) and not key.scan
            ]
        readers = max(known_readers[shape], default=0.0)
        fitted = forms.of(view, readers)
        if isinstance(fitted, Rejection):
            for purpose in purposes(model, kinds, view):
                refused.setdefault(purpose, fitted.reason)
            continue
        if any(_is_optional(model, view, embed.role) for embed in view.embeds):
            continue
        spread = (forms.beside_another(form, about) for form, about in fitted)
        kept = [one for one in (*fitted, *filter(None, spread)) if not without(one[0])]
        if view.embeds:  # different ones may come to the same when only the first children are left
            kept = [one for one in kept if one[0].embeds == view.embeds or one[0] not in known]
            known.add(form for form, _ in kept)
        for form, about in kept:
            variants = dict(_variants(costs, form, about, known_readers[shape]))
            if form is kept[0][0]:
                views[view.name], found[view.name] = replace(form, name=view.name), about
            else:
                more.append((form, about))
            more += [(one, facts.of(one, reads)) for one, reads in variants.items() if not without(one)]
            for directory in forms.directories(form):
                if directory not in known and not without(directory):
                    known.add((directory,))
                    counted = forms.of(directory)
                    more += counted if not isinstance(counted, Rejection) else []
    kept_over = [*views.values(), *(view for view, _ in more)]
    for packed in [view for view in kept_over if view.packed]:
        for view in totals_over(model, statistics, kinds, packed, [need for _, need in needs]):
            if view not in known and not without(view):
                known.add((view,))
                fitted = forms.of(view)
                more += fitted if not isinstance(fitted, Rejection) else []
    # Local views come last: their partitions are those of the views that they are kept over.
    homes = Homes(model, kinds, kept_over)
    for view in candidates:
        if kinds[view.kind].local and not without(view):
            for form in under_partitions(homes, view):
                about = facts.of(form)
                if without(form) or isinstance(costs.fit(form, about), Rejection) or forms.too_large(form, about):
                    continue
                if view.name in views:
                    more.append((form, about))
                else:
                    views[view.name], found[view.name] = replace(form, name=view.name), about
    # Directories and totals may be kept in other forms than they were asked about in.
    more = [(view, about) for view, about in more if not without(view)]
    for number, (view, about) in enumerate(more, len(candidates)):
        views[f"v{number}"], found[f"v{number}"] = replace(view, name=f"v{number}"), about
    return views, found


def _variants(costs: CostModel, view: View, about: ViewFacts, readers: Sequence[float]) -> Iterator[tuple[View, float]]:
    """Further forms of a view, each for what some of its readers read together, and how much that is: whoever is left
    reads elsewhere."""

    def forms(reads: float) -> Sequence[View]:
        return costs.variants(view, about if reads == about.hottest_reads else replace(about, hottest_reads=reads))

    # Mostly, all of them together are not too many.
    if forms(sum(readers)) or forms(about.hottest_reads):
        for reads in _sums(readers):
            yield from ((one, reads) for one in forms(reads))


def _sums(readers: Sequence[float]) -> list[float]:
    """What some readers come to together, the most first: any of them, or where they are many, the hottest ones."""
    hot = sorted(readers, reverse=True)
    if len(hot) > ANY_READERS:
        return list(reversed(list(accumulate(hot))))
    return sorted({sum(some) for many in range(1, len(hot) + 1) for some in combinations(hot, many)}, reverse=True)


class _Known:
    """Views that are there already, whatever they are called; few models ever ask."""

    def __init__(self, views: Iterable[View]) -> None:
        self._views = list(views)
        self._identities: set[View] = set()

    def add(self, views: Iterable[View]) -> None:
        self._views.extend(views)

    def __contains__(self, view: View) -> bool:
        self._identities.update(map(identity, self._views))
        self._views.clear()
        return identity(view) in self._identities


def called_alike(
    views: Mapping[str, View],
    facts: Mapping[str, ViewFacts],
    other_views: Mapping[str, View],
    other_facts: Mapping[str, ViewFacts],
) -> tuple[dict[str, View], dict[str, ViewFacts], set[str]]:
    """The views under the names that they have in another problem, the others under new ones; and the names of those
    that have the same facts there."""
    names = {identity(view): name for name, view in other_views.items()}
    number = max((int(name[1:]) for name in other_views), default=-1)
    found: dict[str, View] = {}
    about: dict[str, ViewFacts] = {}
    same: set[str] = set()
    for old, view in views.items():
        name = names.pop(identity(view), None)
        if name is None:
            number += 1
            name = f"v{number}"
        elif other_facts[name] == facts[old] and other_views[name].base == view.base:
            same.add(name)
        found[name] = other_views[name] if name in same else replace(view, name=name)
        about[name] = other_facts[name] if name in same else facts[old]
    return found, about, same


def add_given(
    facts: Facts, views: dict[str, View], found: dict[str, ViewFacts], given: Mapping[str, Sequence[View]]
) -> dict[str, tuple[str, ...]]:
    """Adds views of which there has to be one per label to the candidates, and says what they are called there: every
    form that is a candidate anyway, or else the last. No two labels have a form in common, if that can be."""
    known = {identity(view): name for name, view in views.items()}
    number = max((int(name[1:]) for name in views), default=-1)
    able: dict[str, list[str]] = {}
    for label, forms in given.items():
        if not any(identity(form) in known for form in forms):
            number += 1
            name = f"v{number}"
            known[identity(forms[-1])] = name
            views[name] = replace(forms[-1], name=name, base="")
            found[name] = facts.of(views[name])
        able[label] = [known[identity(form)] for form in forms if identity(form) in known]
    taken: set[str] = set()
    names: dict[str, tuple[str, ...]] = {}
    for label in sorted(able, key=lambda label: len(able[label])):
        free = [name for name in able[label] if name not in taken]
        names[label] = tuple(free or able[label])
        taken.update(names[label])
    return {label: names[label] for label in given}


def no_others(kinds: Mapping[str, Kind], views: Mapping[str, View], names: Sequence[str]) -> list[str]:
    """Some views, and those that are the same to the engine: an index that leads to its rows is no other one where more
    of what is there is taken through it."""
    found = dict.fromkeys(names)
    for view in (views[name] for name in names):
        if kinds[view.kind].kept_by_engine and kinds[view.kind].holds_all:
            alike = [one for one in views.values() if (one.kind, one.parts) == (view.kind, view.parts)]
            wider = (one for one in alike if set(one.holds) >= set(view.holds))
            found |= dict.fromkeys(
                one.name for one in wider if replace(identity(one), holds=view.holds) == identity(view)
            )
    return list(found)


def drop_baseless(
    model: Model,
    kinds: Mapping[str, Kind],
    views: dict[str, View],
    facts: dict[str, ViewFacts],
    given: dict[str, tuple[str, ...]],
) -> dict[str, str]:
    """Takes out the views that the engine keeps over certain others where there is none of these: no pattern is served
    by them. Of given ones, it is told."""
    homes = Homes(model, kinds, views.values())
    able = (view for view in homes.views if needs_base(kinds[view.kind]))
    dropped = {view.name for view in able if not bases_of(homes, view)}
    for name in dropped:
        del views[name], facts[name]
    lost = {}
    for label, names in list(given.items()):
        given[label] = tuple(name for name in names if name not in dropped)
        if not given[label]:
            del given[label]
            lost[label] = f"nothing is left that '{label}' could be kept over"
    return lost


def heat_of(statistics: Statistics, pattern: Pattern) -> Heat:
    """How often per second, at its peak, a pattern is called, and the share of calls that ask for the same thing: by
    its own, its entity's or its parameters' skew."""
    entity = statistics.model.entities[pattern.entity]
    share = pattern.traffic.top or 0.0
    skew = pattern.traffic.skew or entity.skew
    if not share and skew:
        share = zipf_top(statistics.rows(pattern.entity), skew)
    if not share and entity.top:
        share = entity.top
    if not share:
        shares = [
            statistics.hottest_share(pattern.entity, c.path, c.cut)
            for c in pattern.where
            if c.op == "="
            and isinstance(c.operands[0], Param)
            and not statistics.model.is_many(pattern.entity, c.path.roles)
        ]
        share = min(shares, default=1.0)
    return Heat(peak_rate(pattern.traffic), share)


def _is_optional(model: Model, view: View, role: str) -> bool:
    """A child without a parent has no place inside one."""
    step = model.entities[view.entity].roles[role]
    return any(model.entities[step.entity].columns[column].optional for column in step.columns)
