"""Parse the output of EXPLAIN FORMATTED.

The output starts with a tree of numbered operators, one per line. The details of each operator follow, under its
number. Subqueries come last, in the same form, each under a heading:

| == Physical Plan ==
| AdaptiveSparkPlan (3)
| +- HashAggregate (2)
|    +- Scan parquet d.t (1)
|
| (1) Scan parquet d.t
| Output [2]: [k#35, v#36L]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spark_bucketing.errors import PlanError
from spark_bucketing.plan.tree import PhysicalPlan, PlanNode

_START = "== Physical Plan =="
_LINE = re.compile(
    r"^(?P<indent>(?:[ :]  )*(?:[:+]- )?)(?:\* )?(?P<label>\S.*) \((?P<number>\d+)\)(?: \[.*\]| \(columnarIn=.*\))?$"
)
_STAGE = re.compile(r"^(?P<indent>(?:[ :]  )*(?:[:+]- )?)== (?P<which>Final|Current|Initial) Plan ==$")
_HEAD = re.compile(r"^\((?P<number>\d+)\) (?P<label>\S.*?)(?: \[codegen id : \d+\])?$")
_DETAIL = re.compile(r"^(?P<key>[A-Z][A-Za-z]*(?: [a-zA-Z]+)*)(?: \[(?P<count>\d+)\])? ?:(?: (?P<value>.*))?$")
# Adaptive execution adds this to the name of a join with split skewed partitions.
_SKEWED = "(skew=true)"
_REUSED = re.compile(r"^ReusedExchange \[Reuses operator id: (\d+)\]$")


@dataclass
class _Line:
    depth: int
    number: int
    label: str
    below: list[_Line] = field(default_factory=list)
    details: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


def parse_plan(text: str) -> PhysicalPlan:
    """Parse the output of EXPLAIN FORMATTED.

    Raises:
        PlanError: the text is not a physical plan, or cannot be parsed.
    """
    if _START not in text:
        # Spark returns an error as text under a different heading.
        answer = " ".join(line.strip() for line in text.splitlines() if line.strip())
        raise PlanError(f"Spark could not plan the query. {answer or 'Spark gave no reason.'}")
    lines = text[text.index(_START) + len(_START) :].splitlines()
    trees = _trees(lines)
    if not trees:
        raise PlanError("Cannot parse any operator in Spark's physical plan.")
    by_number = {line.number: line for tree in trees for line in _all(tree)}
    _add_details(by_number, lines)
    built: dict[int, PlanNode] = {}
    roots = {tree.number: _build(tree.number, by_number, built) for tree in trees}
    return PhysicalPlan(tuple(roots.values()), tuple(built.values()))


def _all(line: _Line) -> Iterable[_Line]:
    waiting = [line]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += reversed(found.below)


def _trees(lines: Sequence[str]) -> list[_Line]:
    """Return the trees in the output.

    A tree is a block of lines whose first line has no indentation. An empty line or a heading precedes it.
    """
    roots: list[_Line] = []
    stack: list[_Line] = []
    skipped: int | None = None
    for line in lines:
        if stage := _STAGE.match(line):
            # Ignore the initial plan of adaptive execution.
            skipped = len(stage["indent"]) if stage["which"] == "Initial" else None
            continue
        found = None if _HEAD.match(line) else _LINE.match(line)
        if found is None:
            stack, skipped = ([], None) if not line.strip() else (stack, skipped)
            continue
        depth = len(found["indent"])
        if skipped is not None and depth >= skipped:
            continue
        skipped = None
        while stack and stack[-1].depth >= depth:
            stack.pop()
        new = _Line(depth, int(found["number"]), found["label"])
        if stack:
            stack[-1].below.append(new)
        elif depth == 0:
            roots.append(new)
        else:
            continue
        stack.append(new)
    known = {line.number for root in roots[:1] for line in _all(root)}
    # A line inside a literal may look like an operator. A real tree has new numbers, or repeats a whole tree.
    return roots[:1] + [root for root in roots[1:] if root.number not in known]


def _add_details(by_number: Mapping[int, _Line], lines: Sequence[str]) -> None:
    current: _Line | None = None
    key: str | None = None
    for line in lines:
        head = _HEAD.match(line)
        named = by_number.get(int(head["number"])) if head else None
        if head and named and _same(head["label"], named.label):
            current, key = named, None
            if (reused := _REUSED.match(head["label"])) and int(reused[1]) in by_number:
                current.below = [by_number[int(reused[1])]]
        elif current is None:
            continue
        elif detail := _DETAIL.match(line):
            key = detail["key"].strip()
            current.details.setdefault(key, detail["value"] or "")
            if detail["count"]:
                current.counts.setdefault(key, int(detail["count"]))
        elif not line.strip():
            key = None
        elif key:
            # A literal may contain a line break.
            current.details[key] += "\n" + line


def _same(head: str, label: str) -> bool:
    """Return whether a heading belongs to an operator, although one of the two names may have a longer suffix."""
    return label.startswith(head) or head.startswith(label.split(" ", 1)[0])


def _build(top: int, lines: Mapping[int, _Line], built: dict[int, PlanNode]) -> PlanNode:
    """Build the node with a number after all nodes below it, which include a reused exchange."""
    # Do not recurse, because a deep plan would exceed Python's recursion limit.
    waiting = [(top, False)]
    while waiting:
        number, is_ready = waiting.pop()
        if number in built:
            continue
        line = lines[number]
        if not is_ready:
            waiting += [(number, True), *((other.number, False) for other in line.below)]
            continue
        children = tuple(built[other.number] for other in line.below if other.number in built)
        name, _, title = line.label.partition(" ")
        name = name.removesuffix(_SKEWED)
        built[number] = PlanNode(number, name, title, line.details, line.counts, children)
    return built[top]
