"""Analyze a plan: determine the verdict of each operator, the reasons for it, and the fixes that improve it.

A change becomes a fix if Spark plans the query with it, and the operator's verdict improves. Fixes also have effects on
other queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_bucketing.checks.changes import set_to
from spark_bucketing.checks.checked_query import ExchangeOrSort, Query, Setting, Topic
from spark_bucketing.checks.reasons import finding_of
from spark_bucketing.checks.results import (
    RANKS,
    Change,
    Finding,
    Fix,
    Found,
    ModelResult,
    OperatorResult,
    OtherQuery,
    Verdict,
    map_findings,
)
from spark_bucketing.checks.sql_text import rewritten
from spark_bucketing.errors import BucketingError
from spark_bucketing.plan.document import PlanCounts, PlanNode, TableFacts
from spark_bucketing.plan.operators import Operator
from spark_bucketing.plan.planner import Planner

Tables = Mapping[str, TableFacts]
_WORDS = {"aggregate": "GROUP BY", "distinct": "DISTINCT", "window": "window PARTITION BY"}
_JOIN_WORDS = {
    "Inner": "inner join", "LeftOuter": "left join", "RightOuter": "right join", "FullOuter": "full join",
    "LeftSemi": "left semi join", "LeftAnti": "left anti join", "Existence": "exists", "Cross": "cross join",
}  # fmt: skip


def judge(query: Query) -> tuple[OperatorResult, ...]:
    """Determine how Spark brings together the rows of each join, aggregate, distinct and window, and why."""
    ends = dict(_ends(query))
    return tuple(_judged(query, op, ends.get(number)) for number, op in query.operators.items())


def _judged(query: Query, op: Operator, end: ExchangeOrSort | None) -> OperatorResult:
    tables = query.tables
    steps: list[ExchangeOrSort] = []
    # Reasons are unreliable if an operator is not recognized or a table is unknown.
    if op.understood and not undescribed(op, tables) and reads_buckets(op, tables):
        steps = [*_steps(query, op), *([end] if end else [])]
    found, description = verdict(op, tables), _description(query, op)
    findings = tuple(map(_finding, steps))
    if found is Verdict.UNKNOWN:
        nodes = [op.node, *(node for side in op.sides for node in side.way)]
        foreign = sorted({node.operator for node in nodes if not node.is_known})
        cause = f"not a Spark operator: {', '.join(foreign)}"
        description += f" ({cause if foreign else 'Spark cannot describe ' + ', '.join(undescribed(op, tables))})"
        findings = (Finding("unknown", f"Operator not recognized: {op.kind}: {description}", level="unknown"),)
    return OperatorResult(
        kind=op.kind,
        description=description,
        verdict=found,
        tables=op.tables,
        exchanges=len({node.number for side in op.sides for node in side.exchanges} & op.own),
        sorts=len({node.number for side in op.sides for node in side.sorts} & op.own),
        findings=findings,
    )


def _finding(step: ExchangeOrSort) -> Finding:
    is_free = step.is_reused or step.about == Topic.BUCKETS
    size = 0 if is_free else _bytes(step.query, step.node)
    return replace(finding_of(step), line=step.op.line, bytes_shuffled=size, explains=step.explains)


def _bytes(query: Query, node: PlanNode) -> int | None:
    """Return the bytes read from the tables below a node, because Spark does not know what filters remove."""
    total = 0
    for scan in node.scans:
        facts = query.tables.get(scan.table or "")
        size = scan.scan.read_bytes if scan.scan else None
        if size is None:
            size = facts.size_bytes if facts else None
        if size is None:
            return None
        total += size
    return total if node.scans else None


def _ends(query: Query) -> Iterator[tuple[int, ExchangeOrSort]]:
    """Yield the Exchanges and Sorts above all operators, with the uppermost operator below them."""
    for node in query.plan.roots:
        top: list[PlanNode] = []
        while node.number not in query.operators and len(node.children) == 1:
            if node.kind in ("exchange", "sort"):
                top.append(node)
            node = node.children[0]
        op = query.operators.get(node.number)
        if op is not None and top:
            shown = next((part for part in top if part.is_global_sort), top[0])
            yield node.number, ExchangeOrSort(query, op, 0, shown, Topic.END, tuple(part.number for part in top))


def _steps(query: Query, op: Operator) -> Iterator[ExchangeOrSort]:
    """Yield what needs a reason: each Exchange with its Sorts, and each Sort without an Exchange."""
    if op.kind == "join" and op.keyless and not op.broadcast:
        yield ExchangeOrSort(query, op, 0, op.node, Topic.JOIN)
    # The keys are the nodes that shuffle or sort the rows, because both sides of a join may read one Exchange.
    found: dict[int, ExchangeOrSort] = {}
    for place, side in enumerate(op.sides):
        needed = None if op.broadcast else side.needed
        sorts = tuple(node.number for node in side.sorts)
        for node in side.exchanges:
            about = Topic.EXCHANGE if node is needed else Topic.EXCHANGE_BELOW
            covered = sorts if node is (needed or side.exchanges[0]) else ()
            first = found.get(node.number) or ExchangeOrSort(query, op, place, node, about, (node.number,))
            found[node.number] = replace(first, explains=(*first.explains, *covered))
        if side.local_sorts and not side.exchanges:
            node = side.local_sorts[0]
            found[node.number] = ExchangeOrSort(query, op, place, node, Topic.SORT, sorts)
    yield from found.values()
    for place in range(len(op.sides)):
        step = ExchangeOrSort(query, op, place, op.node, Topic.BUCKETS)
        if step.table and step.table.has_uneven_buckets:
            yield step


def _description(query: Query, op: Operator) -> str:
    if op.foreign:
        return f"{op.node.operator} {op.node.title}".strip()
    sides = [ExchangeOrSort(query, op, place, op.node) for place in range(len(op.sides))]
    if op.kind != "join":
        keys = ", ".join(sides[0].key_texts)
        return f"{_WORDS[op.kind]} {keys}" if keys else f"{op.kind} over all rows"
    pairs = [f"{left} = {right}" for left, right in zip(sides[0].key_texts, sides[1].key_texts, strict=False)]
    left, right = (" and ".join(side.entry.tables) or "rows" for side in op.sides)
    join = next((words for kind, words in _JOIN_WORDS.items() if op.node.join_type.startswith(kind)), "join")
    return f"{join} of {left} with {right}" + (f" on {' AND '.join(pairs)}" if pairs else "")


def undescribed(op: Operator, tables: Tables) -> list[str]:
    """Return the tables below an operator that the metastore does not describe."""
    return sorted(set(op.tables) - tables.keys())


def reads_buckets(op: Operator, tables: Tables) -> bool:
    """Return whether any table below an operator is bucketed according to its metadata."""
    return any(name in tables and tables[name].spec is not None for name in op.tables)


def verdict(op: Operator, tables: Tables) -> Verdict:
    """Return the verdict on how Spark brings the operator's rows together."""
    if not op.understood:
        return Verdict.UNKNOWN
    if op.broadcast:
        return Verdict.BROADCAST
    if undescribed(op, tables):
        return Verdict.UNKNOWN
    if not reads_buckets(op, tables):
        return Verdict.NOT_BUCKETED
    if op.kind == "join" and op.keyless:
        return Verdict.SHUFFLED
    moved = [bool(side.exchanges) for side in op.sides]
    if any(moved):
        return Verdict.SHUFFLED if all(moved) else Verdict.ONE_SIDED
    return Verdict.SHUFFLE_FREE if any(side.sorts for side in op.sides) else Verdict.SORT_FREE


# Settings that another change may need in order to have an effect.
_ALONG = ({Setting.ORDERING: "true"}, {Setting.ALL_KEYS: "false"})


@dataclass(frozen=True)
class PlannedQuery:
    """A planned query: its operators, and the Exchanges and Sorts of the whole plan."""

    operators: tuple[OperatorResult, ...]
    counts: PlanCounts


class HypotheticalQuery:
    """A query that Spark plans again with changes of its tables, its settings and its text."""

    def __init__(self, planner: Planner, query: Query) -> None:
        self._planner, self._sql, self.settings, self.counts = planner, query.sql, query.settings, query.plan.counts
        self.tables = dict(query.tables)
        for name, facts in query.tables.items():
            if facts.partition_columns:
                # Spark plans the query with the size of the selected partitions.
                size = query.plan.table_bytes(name)
                known = facts.size_bytes if size is None else size
                self.tables[name] = replace(facts, size_bytes=known, knows_size=size is not None)
        self._planned: dict[object, PlannedQuery | None] = {}
        #: The operators of the unchanged query.
        self.operators = judge(query)

    def planned(self, changes: Sequence[Change] = ()) -> PlannedQuery | None:
        """Plan the query with these changes; return None if Spark rejects the changed query."""
        key = tuple((change.kind, change.text, tuple(change.settings.items())) for change in changes)
        if key not in self._planned:
            try:
                self._planned[key] = self._plan(changes)
            # A change that fails for any reason, such as a type that cannot be bucketed, does not become a fix.
            except BucketingError:
                self._planned[key] = None
        return self._planned[key]

    def planned_like(self, *changes: Change) -> PlannedQuery | None:
        """Plan the query with changes, and its operators in the unchanged order; None if they differ."""
        planned = self.planned(changes)
        own: dict[str, list[OperatorResult]] = {}
        for found in reversed(planned.operators if planned else ()):
            own.setdefault(found.kind, []).append(found)
        ordered = tuple(own[operator.kind].pop() for operator in self.operators if own.get(operator.kind))
        is_same = planned and len(ordered) == len(planned.operators) == len(self.operators)
        return replace(planned, operators=ordered) if planned and is_same else None

    def forget(self) -> None:
        """Discard the plans to save memory, but keep the numbers of Exchanges and Sorts."""
        self._planned.clear()
        self.operators = ()

    def _plan(self, changes: Sequence[Change]) -> PlannedQuery:
        facts, changed, session = dict(self.tables), set[str](), dict[str, str]()
        settings, sql = self.settings, self._sql
        for change in changes:
            settings = settings.changed(change.settings)
            session |= {**change.settings, **change.planned_as_if}
            sql = rewritten(sql, change.rewrite) if change.rewrite else sql
            if change.table in facts:
                before = facts[change.table]
                after = before.retyped(change.column_types)
                spec = change.spec or before.spec
                facts[change.table] = replace(after, spec=spec, files_per_bucket=1, partitions=None, is_empty=False)
                changed.add(change.table)
        plan = self._planner.plan(sql, [facts[name] for name in changed], session)
        query = Query(plan, {name: facts[name] for name in plan.tables if name in facts}, settings)
        return PlannedQuery(judge(query), plan.counts)


def with_fixes(query: HypotheticalQuery, is_late: Callable[[], bool] = lambda: False) -> Iterator[OperatorResult]:
    """Yield the operators of a query with fixes for their findings, which are tested until the time limit is over."""
    for place, operator in enumerate(query.operators):
        tests = _Tests(query, place)
        yield replace(operator, findings=tuple(tests.finding(found, is_late) for found in operator.findings))


@dataclass(frozen=True)
class _Tests:
    """Tests the changes that the findings of one operator propose."""

    query: HypotheticalQuery
    place: int  # index of the operator

    def finding(self, finding: Finding, is_late: Callable[[], bool]) -> Finding:
        """Return a finding, with only the changes that fix the problem."""
        fixes: list[Fix] = []
        part: Change | None = None
        here = self.query.operators[self.place]
        for change in finding.changes:
            if is_late():
                break
            fix, after = self._fix(change), self.query.planned_like(change)
            if not fix and after:
                there = after.operators[self.place]
                # The change avoids a shuffle or a sort, but the verdict stays the same.
                is_part = (there.exchanges, there.sorts) < (here.exchanges, here.sorts)
                part = part or (change if is_part else None)
                fix = self._by_two(change, there) if is_part else None
            if fix and fix not in fixes:
                fixes.append(fix)
        if fixes:
            return replace(finding, level="warning", fixes=tuple(fixes), changes=())
        hint = f" A fix requires several changes. One of them is: {part.text}" if part else ""
        return replace(finding, message=finding.message + hint, changes=())

    def _fix(self, *changes: Change) -> Fix | None:
        """Return a fix, with further settings if necessary, if it improves the operator and makes none worse."""
        for along in ({}, *_ALONG):
            if along and not self._may_go_along(along, changes):
                continue
            after = self.query.planned_like(*changes, *([set_to(along)] if along else []))
            if after and _is_better(self.query.operators, after.operators, self.place):
                verdict, before = after.operators[self.place].verdict, self.query.counts
                first, *others = (_fix_of(one, along, verdict, before, after.counts) for one in changes)
                return replace(first, also=tuple(others))
        return None

    def _may_go_along(self, along: Mapping[str, str], changes: Sequence[Change]) -> bool:
        settings = self.query.settings
        if any(settings.get(name) == value for name, value in along.items()):
            return False
        specs = [*(facts.spec for facts in self.query.tables.values()), *(change.spec for change in changes)]
        # The extension joins tables in the Hive layout by some of the keys, whatever the setting.
        if Setting.ALL_KEYS in along and not any(spec and not spec.in_hive_layout for spec in specs):
            return False
        return Setting.ORDERING not in along or not (
            settings.extension or any(one.kind == "extension" for one in changes)
        )

    def _by_two(self, change: Change, left: OperatorResult) -> Fix | None:
        """Combine a change with one that it leaves to do, if neither helps by itself."""
        due = [other for finding in left.findings for other in finding.changes]
        for other in {other.text: other for other in reversed(due)}.values():
            if other.text != change.text and not self._fix(other) and (both := self._fix(change, other)):
                return both
        return None


def _fix_of(change: Change, along: Mapping[str, str], verdict: Verdict, before: PlanCounts, after: PlanCounts) -> Fix:
    words = " and ".join(f"{name}={value}" for name, value in along.items())
    text = f"{change.text} Also set {words}." if along else change.text
    made = vars(change) | {"text": text, "settings": {**change.settings, **along}}
    return Fix(**made, verdict=verdict, before=before, after=after)


def _is_better(base: Sequence[OperatorResult], after: Sequence[OperatorResult], place: int) -> bool:
    for number, (here, there) in enumerate(zip(base, after, strict=True)):
        before, now = RANKS.get(here.verdict, 0), RANKS.get(there.verdict, 0)
        is_lost = there.verdict is Verdict.UNKNOWN and here.verdict is not Verdict.UNKNOWN
        if is_lost or now > before or (number == place and (now == before or there.verdict not in RANKS)):
            return False
    return True


# These limits bound the time: Spark plans each fix of a table once for every reader of the table.
MOST_READERS = 25
MOST_SECONDS = 60.0
# Fixes for these reasons change the bucket columns, which are a compromise between the table's readers.
_CHOICES = ("keys-miss-bucket-column",)
_GROUPINGS = ("aggregate", "distinct", "window")

Queries = Sequence[tuple[ModelResult, HypotheticalQuery]]


def with_effects(results: Iterable[ModelResult], queries: Queries) -> tuple[ModelResult, ...]:
    """Add to fixes their effects on other queries, and drop those for groupings that cost others more."""
    effects = _Effects(queries)
    return tuple(map_findings(result, effects.finding) for result in results)


class _Effects:
    def __init__(self, queries: Queries) -> None:
        self._end = time.monotonic() + MOST_SECONDS
        self._known: dict[tuple[str, str], OtherQuery] = {}
        self._readers: dict[str, list[tuple[ModelResult, HypotheticalQuery]]] = {}
        for result, query in queries:
            for table in query.tables:
                self._readers.setdefault(table, []).append((result, query))

    def finding(self, found: Found) -> Finding:
        finding = found.finding
        fixes = tuple(self._fix(found.key, fix) for fix in finding.fixes)
        if finding.reason in _CHOICES and found.operator and found.operator.kind in _GROUPINGS:
            fixes = tuple(fix for fix in fixes if fix.kind != "bucket_spec" or serves_all(fix))
        if finding.fixes and not fixes:
            return replace(finding, level="note", fixes=())
        return replace(finding, fixes=fixes)

    def _fix(self, key: str, fix: Fix) -> Fix:
        if fix.kind not in ("bucket_spec", "column_type") or fix.table is None:
            return fix
        readers = [reader for reader in self._readers.get(fix.table, ()) if reader[0].key != key]
        others = [self._other(fix, *reader) for reader in readers[:MOST_READERS]]
        return replace(fix, others=tuple(other for other in others if other and other.after != other.before))

    def _other(self, fix: Fix, reader: ModelResult, query: HypotheticalQuery) -> OtherQuery | None:
        key = (fix.sentences, reader.key)
        if key not in self._known:
            if time.monotonic() > self._end:
                return None
            after = query.planned((fix, *fix.also))
            self._known[key] = OtherQuery(reader.name, query.counts, after.counts if after else None)
            query.forget()
        return self._known[key]


def worse_for(fix: Fix) -> tuple[str, ...]:
    """Return the queries that get more Exchanges or Sorts with a fix, or that Spark cannot plan with it."""
    return tuple(other.name for other in fix.others if other.after is None or other.after > other.before)


def serves_all(fix: Fix) -> bool:
    """Return whether a fix reduces the number of Exchanges, or else of Sorts, over all queries."""
    before, after = fix.before, fix.after
    for other in fix.others:
        before, after = before + other.before, after + (other.after or PlanCounts(other.before.exchanges + 1))
    return after < before


def required_specs(results: Iterable[ModelResult]) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Return the tables for which fixes require different specs, with the queries that benefit by config."""
    found: dict[str, dict[str, list[str]]] = {}
    for result in results:
        for operator in result.operators:
            for fix in (fix for finding in operator.findings for fix in finding.fixes):
                better = [other.name for other in fix.others if other.after and other.name not in worse_for(fix)]
                for part in (fix, *fix.also):
                    if part.kind == "bucket_spec" and part.table and part.spec:
                        served = found.setdefault(part.table, {}).setdefault(part.spec.config, [])
                        served += [name for name in (result.name, *better) if name not in served]
    return {
        table: {text: tuple(names) for text, names in sorted(specs.items(), key=lambda item: -len(item[1]))}
        for table, specs in found.items()
        if len(specs) > 1
    }
