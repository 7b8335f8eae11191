"""Which changes become fixes: Spark plans the query with each, and the operator's verdict has to be better."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_bucketing.eligibility.changes import Change, set_to
from spark_bucketing.eligibility.judging import Judged, judge, tables_of
from spark_bucketing.eligibility.model import Finding, Fix, Level, OperatorResult, PlanCounts, TableFacts, Verdict
from spark_bucketing.eligibility.settings import ALL_KEYS, ORDERING, Settings
from spark_bucketing.errors import BucketingError
from spark_bucketing.plan import Plan
from spark_bucketing.plan.whatif import HypotheticalTable, WhatIf

# From good to bad; only these can be compared.
RANKS = {Verdict.SORT_FREE: 0, Verdict.SHUFFLE_FREE: 1, Verdict.ONE_SIDED: 2, Verdict.SHUFFLED: 3}
# Settings that may have to go along with another change, before that one is of use.
_ALONG = ({ORDERING: "true"}, {ALL_KEYS: "false"})
_UNTRIED = " What would change that could not be tried out: there is no Spark for hypothetical tables here."
_DIFFERS = " Over empty tables of the same layout Spark plans this otherwise, so that no fix can be tried out."


@dataclass(frozen=True)
class PlannedQuery:
    """A query as Spark plans it: its operators, and the Exchanges and Sorts of the whole."""

    operators: tuple[Judged, ...]
    counts: PlanCounts
    explain: Callable[[], tuple[Judged, ...]] | None = None

    def explained(self) -> PlannedQuery:
        """The same with the reasons of what is still there."""
        return replace(self, operators=self.explain(), explain=None) if self.explain else self

    def like(self, other: PlannedQuery) -> list[Judged] | None:
        """Its operators in the order of those of another plan, kind by kind; None where the plans have other operators.

        Args:
            other: the other plan.
        """
        own: dict[str, list[Judged]] = {}
        for found in reversed(self.operators):
            own.setdefault(found.result.kind, []).append(found)
        ordered = [own[judged.result.kind].pop() for judged in other.operators if own.get(judged.result.kind)]
        return ordered if len(ordered) == len(self.operators) == len(other.operators) else None


def counts_of(plan: Plan) -> PlanCounts:
    """How many Exchanges and Sorts a plan has."""
    operators = [node.operator for node in plan.walk()]
    return PlanCounts(operators.count("Exchange"), operators.count("Sort"))


@dataclass
class HypotheticalQuery:
    """A query over the tables that it reads, as they are and as they might be.

    Args:
        whatif: plans it.
        sql: the query.
        tables: as they are, in the planner's terms.
        facts: of the same tables.
        settings: of the session.
        session: settings under which empty tables are planned as these tables are.
        counts: its Exchanges and Sorts as it is, once that is known.
    """

    whatif: WhatIf
    sql: str
    tables: Mapping[str, HypotheticalTable]
    facts: Mapping[str, TableFacts]
    settings: Mapping[str, str]
    session: Mapping[str, str] = field(default_factory=dict)
    counts: PlanCounts | None = None
    _planned: dict[object, PlannedQuery | None] = field(default_factory=dict, repr=False)

    def planned(self, changes: Sequence[Change] = ()) -> PlannedQuery | None:
        """The query with these changes; None where Spark refuses them."""
        key = tuple((change.kind, change.text, tuple(change.settings.items())) for change in changes)
        if key not in self._planned:
            try:
                self._planned[key] = self._plan(changes)
            # A type that cannot be bucketed, an SQL that cannot be written otherwise: no fix, whatever it is.
            except BucketingError:
                self._planned[key] = None
        return self._planned[key]

    def known(self, judged: Sequence[Judged], counts: PlanCounts) -> None:
        """Have the plan of the query as it is, which was made over the same tables."""
        self._planned[()] = PlannedQuery(tuple(judged), counts)

    def forget(self) -> None:
        """Let go of the plans, of which a project has too many to be kept; the Exchanges and Sorts stay."""
        if self.counts is None and (base := self._planned.get(())):
            self.counts = base.counts
        self._planned.clear()

    def _plan(self, changes: Sequence[Change]) -> PlannedQuery:
        tables, facts, settings, sql = dict(self.tables), dict(self.facts), dict(self.settings), self.sql
        for change in changes:
            settings |= change.settings
            sql = change.rewrite(sql) if change.rewrite else sql
            if change.table in tables:
                made = replace(tables[change.table], spec=change.spec, files_per_bucket=1).retyped(change.column_types)
                tables[change.table] = made
                facts[change.table] = replace(
                    facts[change.table], spec=made.spec, columns=made.columns, files_per_bucket=1, partitions=None
                )
        changed = {name: value for change in changes for name, value in change.planned_settings.items()}
        if not self.whatif.has_extension and any(change.kind == "extension" for change in changes):
            raise BucketingError("The extension is not there.")
        plan = self.whatif.plan(sql, tables.values(), {**self.session, **changed})
        known = {name: facts[name] for name in tables_of(plan) if name in facts}
        verdicts = judge(plan, known, settings, with_reasons=False)
        return PlannedQuery(verdicts, counts_of(plan), lambda: judge(plan, known, settings))


@dataclass
class Proposals:
    """Fixes for the findings of one query.

    Args:
        query: the query, to be planned.
        judged: its operators in the plan at hand.
        settings: of the session.
        is_late: whether it is time to come to an end.
    """

    query: HypotheticalQuery
    judged: Sequence[Judged]
    settings: Settings
    is_late: Callable[[], bool] = lambda: False

    def results(self) -> Iterator[OperatorResult]:
        """The operators with the fixes for their findings."""
        wanted = any(changes for judged in self.judged for changes in judged.changes)
        base = self.query.planned() if wanted else None
        tried = base.like(PlannedQuery(tuple(self.judged), base.counts)) if base else None
        if base and tried:
            base = replace(base, operators=tuple(tried))
        for place, judged in enumerate(self.judged):
            same = tried is not None and tried[place].result.verdict is judged.result.verdict
            findings = []
            for finding, changes in zip(judged.result.findings, judged.changes, strict=True):
                if base is None or not same:
                    note = _DIFFERS if changes else ""
                    findings.append(replace(finding, message=finding.message + note))
                else:
                    findings.append(self._with_fixes(finding, changes, base, place))
            yield replace(judged.result, findings=tuple(findings))

    def _with_fixes(self, finding: Finding, changes: Sequence[Change], base: PlannedQuery, place: int) -> Finding:
        fixes: list[Fix] = []
        part: Change | None = None
        for change in changes:
            if self.is_late():
                break
            fix = self._fix((change,), base, place)
            if fix is None and self._saves(change, base, place):
                part = part or change
                fix = self._by_two(change, base, place)
            if fix and fix not in fixes:
                fixes.append(fix)
        hint = f" It takes more than one change here; one of them: {part.text}" if part and not fixes else ""
        level: Level = "warning" if fixes else "note"
        return replace(finding, message=finding.message + hint, level=level, fixes=tuple(fixes))

    def _fix(self, changes: tuple[Change, ...], base: PlannedQuery, place: int) -> Fix | None:
        """A fix, if these changes better an operator and harm no other one of the query; with a setting, if need be."""
        for along in ({}, *_ALONG):
            if along and not self._may_go_along(along, changes):
                continue
            after = self.query.planned((*changes, *((set_to(along),) if along else ())))
            found = after.like(base) if after else None
            if after is None or found is None or not self._is_better(base, found, place):
                continue
            words = " and ".join(f"{name}={value}" for name, value in along.items())
            text = f"{changes[0].text} Set {words} as well." if along else changes[0].text
            return _fix_of(changes[0], text, along, found[place].result.verdict, base.counts, after.counts)
        return None

    def _may_go_along(self, along: Mapping[str, str], changes: Sequence[Change]) -> bool:
        if any(self.settings.get(name) == value for name, value in along.items()):
            return False
        return ORDERING not in along or not (self.settings.extension or any(c.kind == "extension" for c in changes))

    @staticmethod
    def _is_better(base: PlannedQuery, after: Sequence[Judged], place: int) -> bool:
        for number, (here, there) in enumerate(zip(base.operators, after, strict=True)):
            before, now = RANKS.get(here.result.verdict, 0), RANKS.get(there.result.verdict, 0)
            if now > before or (number == place and (now == before or there.result.verdict not in RANKS)):
                return False
        return True

    def _by_two(self, change: Change, base: PlannedQuery, place: int) -> Fix | None:
        """A change together with what is due next where it was made: both sides of a join are to be sorted, say.

        Only where neither is of use alone: what the second one would do by itself is a fix of another finding.
        """
        after = self.query.planned((change,))
        left = after.explained().like(base) if after else None
        due = [other for changes in left[place].changes for other in changes] if left else []
        for other in {other.text: other for other in reversed(due)}.values():
            if other.text == change.text or self._fix((other,), base, place):
                continue
            both = self._fix((change, other), base, place)
            if both:
                also = self._along(other, both)
                text = f"{change.text} And {also.text[0].lower()}{also.text[1:]}"
                return replace(both, text=text, also=(also,))
        return None

    @staticmethod
    def _along(second: Change, both: Fix) -> Fix:
        extra = {name: value for name, value in both.settings.items() if name in (ORDERING, ALL_KEYS)}
        words = " and ".join(f"{name}={value}" for name, value in extra.items())
        text = f"{second.text} Set {words} as well." if extra else second.text
        return _fix_of(second, text, extra, both.promises, both.before, both.after)

    def _saves(self, change: Change, base: PlannedQuery, place: int) -> bool:
        """Whether a change saves a shuffle or a sort, without changing the verdict yet."""
        after = self.query.planned((change,))
        found = after.like(base) if after else None
        if found is None:
            return False
        here, there = base.operators[place].result, found[place].result
        return (there.exchanges, there.sorts) < (here.exchanges, here.sorts)


def _fix_of(
    change: Change, text: str, along: Mapping[str, str], promises: Verdict, before: PlanCounts, after: PlanCounts
) -> Fix:
    return Fix(
        kind=change.kind,
        text=text,
        promises=promises,
        settings={**change.settings, **along},
        table=change.table if change.kind in ("bucket_spec", "column_type", "rewrite_files") else None,
        spec=change.spec if change.kind == "bucket_spec" else None,
        column_types=change.column_types,
        where=change.where,
        before=before,
        after=after,
    )


def untried(judged: Judged) -> OperatorResult:
    """An operator whose findings may have fixes, which nobody could try out: warnings nevertheless."""
    findings = [
        replace(finding, level="warning", message=finding.message + _UNTRIED) if changes else finding
        for finding, changes in zip(judged.result.findings, judged.changes, strict=True)
    ]
    return replace(judged.result, findings=tuple(findings))
