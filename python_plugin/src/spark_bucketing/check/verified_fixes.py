"""Turn candidates into fixes if they improve the operator's verdict when Spark plans the query with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_bucketing.check.candidate_fixes import Candidates, set_to
from spark_bucketing.check.checked_query import Query
from spark_bucketing.check.results import Candidate, Finding, Fix, Level, OperatorResult, Verdict
from spark_bucketing.check.scans import TableFacts
from spark_bucketing.check.session_settings import ALL_KEYS, ORDERING, Settings
from spark_bucketing.check.sql_text import rewritten
from spark_bucketing.check.verdicts import RANKS, judge
from spark_bucketing.errors import BucketingError
from spark_bucketing.plan.tree import PlanCounts
from spark_bucketing.plan.whatif import HypotheticalTable, WhatIf

# Settings that another candidate may need in order to have an effect.
_ALONG = ({ORDERING: "true"}, {ALL_KEYS: "false"})
_UNTRIED = " Fixes could not be tested, because Spark could not start for hypothetical tables."
_DIFFERS = " Fixes could not be tested, because Spark plans this query differently over empty tables."


@dataclass(frozen=True)
class PlannedQuery:
    """A planned query: its operators, and the Exchanges and Sorts of the whole plan."""

    operators: tuple[OperatorResult, ...]
    counts: PlanCounts
    query: Query | None = None

    def explained(self) -> PlannedQuery:
        """Return the plan with reasons for the remaining Exchanges and Sorts."""
        return replace(self, operators=judge(self.query), query=None) if self.query else self

    def like(self, other: Sequence[OperatorResult]) -> PlannedQuery | None:
        """Return the plan with its operators in the order of another plan; None if the operators differ."""
        own: dict[str, list[OperatorResult]] = {}
        for found in reversed(self.operators):
            own.setdefault(found.kind, []).append(found)
        ordered = tuple(own[operator.kind].pop() for operator in other if own.get(operator.kind))
        return replace(self, operators=ordered) if len(ordered) == len(self.operators) == len(other) else None


@dataclass
class HypotheticalQuery:
    """A query over hypothetical copies of the tables that it reads."""

    whatif: WhatIf  # plans queries over hypothetical tables
    sql: str  # the query's text
    settings: Settings  # the session's settings
    facts: Mapping[str, TableFacts]  # facts about its tables
    tables: Mapping[str, HypotheticalTable]  # the hypothetical copies
    # Settings that make Spark plan empty tables like the real ones.
    session: Mapping[str, str] = field(default_factory=dict)
    counts: PlanCounts | None = None  # Exchanges and Sorts of the unchanged query, once known
    _planned: dict[object, PlannedQuery | None] = field(default_factory=dict, repr=False)

    def planned(self, candidates: Sequence[Candidate] = ()) -> PlannedQuery | None:
        """Plan the query with these changes; None if Spark rejects them."""
        key = tuple((candidate.kind, candidate.text, tuple(candidate.settings.items())) for candidate in candidates)
        if key not in self._planned:
            try:
                self._planned[key] = self._plan(candidates)
            # A candidate that fails for any reason, such as a type that cannot be bucketed, does not become a fix.
            except BucketingError:
                self._planned[key] = None
        return self._planned[key]

    def known(self, judged: Sequence[OperatorResult], counts: PlanCounts) -> None:
        """Store the plan of the unchanged query over the same tables."""
        self._planned[()] = PlannedQuery(tuple(judged), counts)

    def forget(self) -> None:
        """Discard the plans to limit memory use, but keep the number of Exchanges and Sorts."""
        if self.counts is None and (base := self._planned.get(())):
            self.counts = base.counts
        self._planned.clear()

    def _plan(self, candidates: Sequence[Candidate]) -> PlannedQuery:
        if not self.whatif.has_extension and any(candidate.kind == "extension" for candidate in candidates):
            raise BucketingError("The session extension is not available.")
        tables, facts, session = dict(self.tables), dict(self.facts), dict(self.session)
        settings, sql = self.settings, self.sql
        for candidate in candidates:
            settings = settings.changed(candidate.settings)
            session |= {**candidate.settings, **candidate.planned_as_if}
            sql = rewritten(sql, candidate.rewrite) if candidate.rewrite else sql
            if candidate.table in tables:
                spec = candidate.spec or facts[candidate.table].spec
                made = replace(tables[candidate.table], spec=spec, files_per_bucket=1).retyped(candidate.column_types)
                tables[candidate.table] = made
                facts[candidate.table] = replace(
                    facts[candidate.table], spec=spec, columns=made.columns, files_per_bucket=1, partitions=None
                )
        plan = self.whatif.plan(sql, tables.values(), session)
        query = Query(plan, {name: facts[name] for name in plan.tables if name in facts}, settings)
        return PlannedQuery(judge(query, with_reasons=False), plan.counts, query)


class Proposals:
    """Finds fixes for the findings of one query."""

    def __init__(
        self, query: HypotheticalQuery, judged: Sequence[OperatorResult], is_late: Callable[[], bool] = lambda: False
    ) -> None:
        self._query, self._judged, self._is_late = query, judged, is_late

    def results(self) -> Iterator[OperatorResult]:
        """Yield the operators with the fixes for their findings."""
        base = self._planned() if has_candidates(self._judged) else None
        for place, operator in enumerate(self._judged):
            if base and base.operators[place].verdict is operator.verdict:
                yield replace(operator, findings=tuple(self._tried(found, base, place) for found in operator.findings))
            else:
                yield untried(operator, _DIFFERS, "note")

    def _planned(self, *candidates: Candidate) -> PlannedQuery | None:
        planned = self._query.planned(candidates)
        return planned.like(self._judged) if planned else None

    def _tried(self, finding: Finding, base: PlannedQuery, place: int) -> Finding:
        fixes: list[Fix] = []
        part: Candidate | None = None
        for candidate in finding.candidates:
            if self._is_late():
                break
            fix = self._fix((candidate,), base, place)
            if fix is None and self._saves(candidate, base, place):
                part = part or candidate
                fix = self._by_two(candidate, base, place)
            if fix and fix not in fixes:
                fixes.append(fix)
        if fixes:
            return replace(finding, level="warning", fixes=tuple(fixes), candidates=())
        hint = f" This requires several changes; one of them: {part.text}" if part else ""
        return replace(finding, message=finding.message + hint, candidates=())

    def _fix(self, candidates: Candidates, base: PlannedQuery, place: int) -> Fix | None:
        """Return a fix if the candidates improve the operator and harm no other operator; add settings if necessary."""
        for along in ({}, *_ALONG):
            if along and not self._may_go_along(along, candidates):
                continue
            after = self._planned(*candidates, *([set_to(along)] if along else []))
            if after and _is_better(base.operators, after.operators, place):
                verdict, counts = after.operators[place].verdict, (base.counts, after.counts)
                first, *others = (_fix_of(one, along, verdict, *counts) for one in candidates)
                if not others:
                    return first
                text = f"{candidates[0].text} And {others[0].text[0].lower()}{others[0].text[1:]}"
                return replace(first, text=text, also=tuple(others))
        return None

    def _may_go_along(self, along: Mapping[str, str], candidates: Candidates) -> bool:
        settings = self._query.settings
        if any(settings.get(name) == value for name, value in along.items()):
            return False
        return ORDERING not in along or not (settings.extension or any(c.kind == "extension" for c in candidates))

    def _by_two(self, candidate: Candidate, base: PlannedQuery, place: int) -> Fix | None:
        """Combine a candidate with another that it makes possible, such as saving the sort on the other side.

        Combine them only if neither helps alone; a candidate that helps alone is a fix for another finding.
        """
        planned = self._query.planned((candidate,))
        left = planned.explained().like(self._judged) if planned else None
        due = [other for finding in left.operators[place].findings for other in finding.candidates] if left else []
        for other in {other.text: other for other in reversed(due)}.values():
            if other.text != candidate.text and not self._fix((other,), base, place):
                both = self._fix((candidate, other), base, place)
                if both:
                    return both
        return None

    def _saves(self, candidate: Candidate, base: PlannedQuery, place: int) -> bool:
        """Return whether a candidate saves a shuffle or a sort, even if the verdict stays the same."""
        after = self._planned(candidate)
        if after is None:
            return False
        here, there = base.operators[place], after.operators[place]
        return (there.exchanges, there.sorts) < (here.exchanges, here.sorts)


def _fix_of(
    candidate: Candidate, along: Mapping[str, str], verdict: Verdict, before: PlanCounts, after: PlanCounts
) -> Fix:
    words = " and ".join(f"{name}={value}" for name, value in along.items())
    text = f"{candidate.text} Also set {words}." if along else candidate.text
    made = vars(candidate) | {"text": text, "settings": {**candidate.settings, **along}}
    return Fix(**made, verdict=verdict, before=before, after=after)


def _is_better(base: Sequence[OperatorResult], after: Sequence[OperatorResult], place: int) -> bool:
    for number, (here, there) in enumerate(zip(base, after, strict=True)):
        before, now = RANKS.get(here.verdict, 0), RANKS.get(there.verdict, 0)
        is_lost = there.verdict is Verdict.UNKNOWN and here.verdict is not Verdict.UNKNOWN
        if is_lost or now > before or (number == place and (now == before or there.verdict not in RANKS)):
            return False
    return True


def has_candidates(judged: Sequence[OperatorResult]) -> bool:
    """Return whether there are candidates to test."""
    return any(finding.candidates for operator in judged for finding in operator.findings)


def untried(operator: OperatorResult, why: str = _UNTRIED, level: Level = "warning") -> OperatorResult:
    """Return an operator whose candidates were not tested, with the reason."""
    findings = tuple(
        replace(finding, level=level, message=finding.message + why, candidates=()) if finding.candidates else finding
        for finding in operator.findings
    )
    return replace(operator, findings=findings)
