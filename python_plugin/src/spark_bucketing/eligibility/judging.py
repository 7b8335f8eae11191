"""Judges a plan: what each operator does, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from spark_bucketing.eligibility.changes import Change
from spark_bucketing.eligibility.clauses import Clauses
from spark_bucketing.eligibility.model import Finding, OperatorResult, TableFacts, Verdict
from spark_bucketing.eligibility.movements import ABOVE, Movement, Query
from spark_bucketing.eligibility.operators import Operator
from spark_bucketing.eligibility.rules import reason_for
from spark_bucketing.eligibility.settings import Settings
from spark_bucketing.eligibility.verdicts import (
    is_described,
    is_understood,
    local_sorts,
    needed_exchange,
    reads_buckets,
    verdict,
    why_unknown,
)
from spark_bucketing.plan import Node, Plan, Statistics

_WORDS = {"aggregate": "GROUP BY", "distinct": "DISTINCT", "window": "window PARTITION BY"}


@dataclass(frozen=True)
class Judged:
    """An operator's result; for each of its findings what could be changed, and the plan's nodes that it explains."""

    operator: Operator
    result: OperatorResult
    changes: tuple[tuple[Change, ...], ...] = ()
    explains: tuple[tuple[int, ...], ...] = ()


def judge(
    plan: Plan,
    tables: Mapping[str, TableFacts],
    settings: Mapping[str, str],
    sql: str | None = None,
    statistics: Statistics | None = None,
    with_reasons: bool = True,
) -> tuple[Judged, ...]:
    """Say of each join, aggregate, distinct and window of a plan how its rows come together, and why.

    Args:
        plan: the plan.
        tables: what is known of the plan's tables (see tables_of), by schema and name.
        settings: values of the session's SETTINGS; a missing one has Spark's default.
        sql: the query, to find the lines of its clauses; lines of findings are lines of this text.
        statistics: sizes of tables, and of what the query reads of them, where Spark tells them.
        with_reasons: find out why, too.
    """
    statistics = statistics or Statistics()
    for node in reversed(list(plan.walk())):
        # From the bottom up, since each asks those below: plans may be deeper than Python's stack.
        _ = node.output
    query = Query(plan, Settings(settings), with_sizes(tables, statistics), statistics.folders)
    return tuple(_Judge(query, sql, statistics, with_reasons).results())


def with_sizes(tables: Mapping[str, TableFacts], statistics: Statistics) -> dict[str, TableFacts]:
    """Facts with the sizes that Spark expects, where the metastore has none."""
    sizes = statistics.tables
    return {
        name: replace(facts, size_bytes=facts.size_bytes if facts.size_bytes is not None else sizes.get(name))
        for name, facts in tables.items()
    }


def tables_of(plan: Plan) -> tuple[str, ...]:
    """Tables that a plan reads, by schema and name, each once, in the plan's order."""
    return tuple(dict.fromkeys(node.table for node in plan.walk() if node.table))


class _Judge:
    def __init__(self, query: Query, sql: str | None, statistics: Statistics, with_reasons: bool) -> None:
        self.query, self.statistics, self.with_reasons = query, statistics, with_reasons
        self.clauses = Clauses(sql, tuple(query.operators.values()))

    def results(self) -> Iterator[Judged]:
        query, tables = self.query, self.query.tables
        ends = dict(self._ends()) if self.with_reasons else {}
        for number, op in query.operators.items():
            found = verdict(op, tables)
            movements: list[tuple[Movement, tuple[int, ...]]] = []
            # What is not understood, or is not known of a table, has no reason that could be relied on.
            if self.with_reasons and is_understood(op) and is_described(op, tables) and reads_buckets(op, tables):
                movements = [*_movements(query, op), *ends.get(number, ())]
            explained = [self._finding(movement) for movement, _ in movements]
            unknown = f" ({why_unknown(op, tables)})" if found is Verdict.UNKNOWN else ""
            result = OperatorResult(
                kind=op.kind,
                description=_description(query, op) + unknown,
                verdict=found,
                tables=tuple(dict.fromkeys(scan.table for side in op.sides for scan in side.scans if scan.table)),
                exchanges=len({node.number for side in op.sides for node in side.exchanges}),
                sorts=len({node.number for side in op.sides for node in side.sorts}),
                findings=tuple(finding for finding, _ in explained),
            )
            yield Judged(op, result, tuple(changes for _, changes in explained), tuple(nodes for _, nodes in movements))

    def _finding(self, movement: Movement) -> tuple[Finding, tuple[Change, ...]]:
        reason, explanation = reason_for(movement)
        finding = Finding(
            reason=reason.slug,
            message=explanation.message,
            tables=tuple(table for table in explanation.tables if table),
            level="note",
            line=self.clauses.line_of(movement.op),
            bytes_shuffled=self._bytes(movement.node),
        )
        return finding, explanation.changes

    def _bytes(self, node: Node) -> int | None:
        """What is read of the tables below; how much of it filters and groupings leave, Spark does not know."""
        scans = {scan.number: scan for scan in node.walk() if scan.table}
        sizes = [self._read(scan) for scan in scans.values()]
        known = [size for size in sizes if size is not None]
        return sum(known) if known and len(known) == len(scans) else None

    def _read(self, scan: Node) -> int | None:
        facts = self.query.tables.get(scan.table or "")
        reads = (self.statistics.reads.get(column.id) for column in scan.output or ())
        found = next((size for _, size in filter(None, reads)), None)
        return found if found is not None else facts.size_bytes if facts else None

    def _ends(self) -> Iterator[tuple[int, tuple[tuple[Movement, tuple[int, ...]], ...]]]:
        """Exchanges and Sorts above all operators, by the uppermost operator below."""
        for root in self.query.plan.roots:
            top: list[Node] = []
            node = root
            while node.number not in self.query.operators and len(node.children) == 1:
                if node.operator in ("Exchange", "Sort"):
                    top.append(node)
                node = node.children[0]
            op = self.query.operators.get(node.number)
            if op is not None and top:
                last = Movement(self.query, op, ABOVE, next((n for n in top if n.is_global_sort), top[0]))
                yield node.number, ((last, tuple(part.number for part in top)),)


def _movements(query: Query, op: Operator) -> Iterator[tuple[Movement, tuple[int, ...]]]:
    """What has to be explained: each Exchange, with the Sorts that come from it, and Sorts where nothing moves."""
    if op.kind == "join" and op.keyless and not op.broadcast:
        yield Movement(query, op, 0, op.node), ()
    for place, side in enumerate(op.sides):
        needed = None if op.broadcast else needed_exchange(side)
        sorts = tuple(node.number for node in side.sorts)
        for node in side.exchanges:
            covered = sorts if node is needed or (needed is None and node is side.exchanges[0]) else ()
            yield Movement(query, op, place, node, node is needed), (node.number, *covered)
        local = local_sorts(side)
        if local and not side.exchanges:
            yield Movement(query, op, place, local[0]), sorts


def _description(query: Query, op: Operator) -> str:
    if op.foreign:
        return f"{op.node.operator} {op.node.title}".strip()
    sides = [Movement(query, op, place, op.node) for place in range(len(op.sides))]
    if op.kind != "join":
        keys = ", ".join(sides[0].key_texts)
        return f"{_WORDS[op.kind]} {keys}" if keys else f"{op.kind} of all rows"
    pairs = [f"{left} = {right}" for left, right in zip(sides[0].key_texts, sides[1].key_texts, strict=False)]
    names = [
        " and ".join(dict.fromkeys(scan.table for scan in side.scans if scan.table)) or "rows" for side in op.sides
    ]
    return f"{_join_words(op.node.join_type)} of {names[0]} with {names[1]}" + (
        f" on {' AND '.join(pairs)}" if pairs else ""
    )


def _join_words(join_type: str) -> str:
    kinds = ("Inner", "LeftOuter", "RightOuter", "FullOuter", "LeftSemi", "LeftAnti", "Existence", "Cross")
    words = (
        "inner join",
        "left join",
        "right join",
        "full join",
        "left semi join",
        "left anti join",
        "exists",
        "cross join",
    )
    return next((text for kind, text in zip(kinds, words, strict=True) if join_type.startswith(kind)), "join")
