"""Analyze a plan: determine the verdict of each operator and the reasons for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from spark_bucketing.checks.checked_query import END, EXCHANGE, EXCHANGE_BELOW, JOIN, SORT, ExchangeOrSort, Query
from spark_bucketing.checks.reasons import reason_for
from spark_bucketing.checks.results import Finding, OperatorResult, Verdict
from spark_bucketing.plan.document import PlanNode, TableFacts
from spark_bucketing.plan.operators import Operator

# The verdicts that can be compared, from best to worst.
RANKS = {Verdict.SORT_FREE: 0, Verdict.SHUFFLE_FREE: 1, Verdict.ONE_SIDED: 2, Verdict.SHUFFLED: 3}

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
    found = verdict(op, tables)
    unknown = ""
    if found is Verdict.UNKNOWN:
        nodes = [op.node, *(node for side in op.sides for node in side.way)]
        foreign = sorted({node.operator for node in nodes if not node.is_known})
        cause = f"not a Spark operator: {', '.join(foreign)}"
        unknown = f" ({cause if foreign else 'Spark cannot describe ' + ', '.join(undescribed(op, tables))})"
    return OperatorResult(
        kind=op.kind,
        description=_description(query, op) + unknown,
        verdict=found,
        tables=op.tables,
        exchanges=len({node.number for side in op.sides for node in side.exchanges} & op.own),
        sorts=len({node.number for side in op.sides for node in side.sorts} & op.own),
        findings=tuple(map(_finding, steps)),
    )


def _finding(step: ExchangeOrSort) -> Finding:
    slug, explanation = reason_for(step)
    return Finding(
        reason=slug,
        message=explanation.message,
        tables=tuple(table for table in explanation.tables if table),
        level="note",
        line=step.op.line,
        bytes_shuffled=0 if step.is_reused else _bytes(step.query, step.node),
        changes=explanation.changes,
        explains=step.explains,
    )


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
            yield node.number, ExchangeOrSort(query, op, 0, shown, END, tuple(part.number for part in top))


def _steps(query: Query, op: Operator) -> Iterator[ExchangeOrSort]:
    """Yield what needs a reason: each Exchange with its Sorts, and each Sort without an Exchange."""
    if op.kind == "join" and op.keyless and not op.broadcast:
        yield ExchangeOrSort(query, op, 0, op.node, JOIN)
    # The keys are the nodes that shuffle or sort the rows, because both sides of a join may read one Exchange.
    found: dict[int, ExchangeOrSort] = {}
    for place, side in enumerate(op.sides):
        needed = None if op.broadcast else side.needed
        sorts = tuple(node.number for node in side.sorts)
        for node in side.exchanges:
            about = EXCHANGE if node is needed else EXCHANGE_BELOW
            covered = sorts if node is (needed or side.exchanges[0]) else ()
            first = found.get(node.number) or ExchangeOrSort(query, op, place, node, about, (node.number,))
            found[node.number] = replace(first, explains=(*first.explains, *covered))
        if side.local_sorts and not side.exchanges:
            node = side.local_sorts[0]
            found[node.number] = ExchangeOrSort(query, op, place, node, SORT, sorts)
    yield from found.values()


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
