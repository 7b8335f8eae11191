"""Judges a plan: what each operator does, why, and what would change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from spark_bucketing.eligibility.lines import Lines
from spark_bucketing.eligibility.model import Finding, OperatorResult, TableFacts, Verdict
from spark_bucketing.eligibility.operators import Operator
from spark_bucketing.eligibility.planner import Planner
from spark_bucketing.eligibility.promises import Promises
from spark_bucketing.eligibility.rules import reason_for
from spark_bucketing.eligibility.steps import ABOVE, Step
from spark_bucketing.eligibility.verdicts import (
    is_described,
    is_understood,
    local_sorts,
    needed_exchange,
    outcome_of,
    reads_buckets,
    verdict,
    why_unknown,
)
from spark_bucketing.eligibility.world import World
from spark_bucketing.plan import Node, Plan, Statistics

_WORDS = {"aggregate": "GROUP BY", "distinct": "DISTINCT", "window": "window PARTITION BY"}


@dataclass(frozen=True)
class Judged:
    """An operator's result, and for each of its findings the numbers of the plan's nodes that it explains."""

    operator: Operator
    result: OperatorResult
    explains: tuple[tuple[int, ...], ...]
    modelled: bool


def judge(
    plan: Plan,
    tables: Mapping[str, TableFacts],
    settings: Mapping[str, str],
    sql: str | None = None,
    statistics: Statistics | None = None,
) -> tuple[OperatorResult, ...]:
    """Say of each join, aggregate, distinct and window of a plan how its rows come together, and why.

    Args:
        plan: the plan.
        tables: what is known of the plan's tables (see tables_of), by schema and name.
        settings: values of the session's SETTINGS; a missing one has Spark's default.
        sql: the query, to find the lines of its clauses; lines of findings are lines of this text.
        statistics: sizes of tables, and of what the query reads of them, where Spark told them.
    """
    return tuple(judged.result for judged in judge_nodes(plan, tables, settings, sql, statistics))


def judge_nodes(
    plan: Plan,
    tables: Mapping[str, TableFacts],
    settings: Mapping[str, str],
    sql: str | None = None,
    statistics: Statistics | None = None,
) -> tuple[Judged, ...]:
    """The same with the numbers of nodes, from which tests see that nothing is left out."""
    statistics = statistics or Statistics()
    sizes = statistics.tables
    known = {
        name: replace(facts, size_bytes=facts.size_bytes if facts.size_bytes is not None else sizes.get(name))
        for name, facts in tables.items()
    }
    return tuple(_Judge(plan, World(settings, known, folders=statistics.folders), sql, statistics).results())


def tables_of(plan: Plan) -> tuple[str, ...]:
    """Tables that a plan reads, by schema and name, each once, in the plan's order."""
    return tuple(dict.fromkeys(node.table for node in plan.walk() if node.table))


class _Judge:
    def __init__(self, plan: Plan, world: World, sql: str | None, statistics: Statistics) -> None:
        self.plan, self.statistics = plan, statistics
        self.planner = _as_planned(plan, world)
        self.world = self.planner.world
        self.promises = Promises(plan, self.planner)
        self.lines = Lines(sql, tuple(self.planner.operators.values()))

    def results(self) -> Iterator[Judged]:
        ends = dict(self._ends())
        for number, op in self.planner.operators.items():
            outcome = outcome_of(op)
            found = verdict(op, outcome, self.world)
            trusted = is_understood(op) and outcome == self.planner.outcomes[number]
            findings: list[tuple[Finding, tuple[int, ...]]] = []
            # What is not understood, or is not known of a table, has no reason that could be relied on.
            if is_understood(op) and is_described(op, self.world) and reads_buckets(op, self.world):
                findings = [
                    self._finding(*item, found, trusted) for item in (*_steps(self.planner, op), *ends.get(number, ()))
                ]
            result = OperatorResult(
                kind=op.kind,
                description=_description(self.planner, op)
                + (f" ({why_unknown(op, self.world)})" if found is Verdict.UNKNOWN else ""),
                verdict=found,
                tables=tuple(dict.fromkeys(scan.table for side in op.sides for scan in side.scans if scan.table)),
                exchanges=len({node.number for side in op.sides for node in side.exchanges}),
                sorts=len({node.number for side in op.sides for node in side.sorts}),
                findings=tuple(finding for finding, _ in findings),
            )
            yield Judged(op, result, tuple(numbers for _, numbers in findings), trusted)

    def _finding(
        self, step: Step, numbers: tuple[int, ...], current: Verdict, trusted: bool
    ) -> tuple[Finding, tuple[int, ...]]:
        reason, explanation = reason_for(step)
        fixes, part = self.promises.fixes(step, explanation.changes, current) if trusted else ((), None)
        hint = f" It takes more than one change here; one of them: {part.text}" if part else ""
        finding = Finding(
            reason=reason.slug,
            message=explanation.message + hint,
            tables=tuple(table for table in explanation.tables if table),
            level="warning" if fixes else "note",
            fixes=fixes,
            line=self.lines.line_of(step.op),
            bytes_shuffled=self._bytes(step.node),
        )
        return finding, numbers

    def _bytes(self, node: Node) -> int | None:
        """What is read of the tables below; how much of it filters and groupings leave, Spark does not know."""
        scans = {scan.number: scan for scan in node.walk() if scan.table}
        sizes = [self._read(scan) for scan in scans.values()]
        known = [size for size in sizes if size is not None]
        return sum(known) if known and len(known) == len(scans) else None

    def _read(self, scan: Node) -> int | None:
        facts = self.world.tables.get(scan.table or "")
        reads = (self.statistics.reads.get(column.id) for column in scan.output or ())
        found = next((size for _, size in filter(None, reads)), None)
        return found if found is not None else facts.size_bytes if facts else None

    def _ends(self) -> Iterator[tuple[int, tuple[tuple[Step, tuple[int, ...]], ...]]]:
        """Exchanges and Sorts above all operators, by the uppermost operator below."""
        for root in self.plan.roots:
            top: list[Node] = []
            node = root
            while node.number not in self.planner.operators and len(node.children) == 1:
                if node.operator in ("Exchange", "Sort"):
                    top.append(node)
                node = node.children[0]
            op = self.planner.operators.get(node.number)
            if op is not None and top:
                last = Step(self.planner, op, ABOVE, next((n for n in top if n.is_global_sort), top[0]))
                yield node.number, ((last, tuple(part.number for part in top)),)


def _as_planned(plan: Plan, world: World) -> Planner:
    """The model that has the plan at hand, of those that differ in what only the session knows."""
    for far in (False, True):
        planner = Planner(plan, replace(world, aligns_far=far))
        if all(outcome_of(op) == planner.outcomes[number] for number, op in planner.operators.items()):
            return planner
    return Planner(plan, world)


def _steps(planner: Planner, op: Operator) -> Iterator[tuple[Step, tuple[int, ...]]]:
    """What has to be explained: each Exchange, with the Sorts that come from it, and Sorts where nothing moves."""
    if op.kind == "join" and op.keyless and not op.broadcast:
        yield Step(planner, op, 0, op.node), ()
    for place, side in enumerate(op.sides):
        needed = None if op.broadcast else needed_exchange(side)
        sorts = tuple(node.number for node in side.sorts)
        for node in side.exchanges:
            covered = sorts if node is needed or (needed is None and node is side.exchanges[0]) else ()
            yield Step(planner, op, place, node, node is needed), (node.number, *covered)
        local = local_sorts(side)
        if local and not side.exchanges:
            yield Step(planner, op, place, local[0]), sorts


def _description(planner: Planner, op: Operator) -> str:
    if op.foreign:
        return f"{op.node.operator} {op.node.title}".strip()
    sides = [Step(planner, op, place, op.node) for place in range(len(op.sides))]
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
    return next((said for kind, said in zip(kinds, words, strict=True) if join_type.startswith(kind)), "join")
