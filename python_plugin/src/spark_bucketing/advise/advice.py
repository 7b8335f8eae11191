"""What the advisor finds, for the reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_bucketing.advise.requirements import Planned
from spark_bucketing.edits import FileEdit, Refusal
from spark_bucketing.plan.tree import PlanCounts
from spark_bucketing.spec import BucketSpec


@dataclass(frozen=True)
class Change:
    """Another layout for one model."""

    unique_id: str
    model: str
    table: str
    before: BucketSpec | None
    after: BucketSpec
    config: Mapping[str, object]  # to be set
    size_bytes: int
    rewritten_bytes: int  # of what is there, by the next run
    how: str  # how the next run gets there
    gain: float  # bytes less that are shuffled and sorted, by the estimate, without what writing costs
    write_cost: float  # bytes more that are shuffled and sorted when it is written
    lost: tuple[str, ...] = ()  # queries that required other keys, with these
    evolves: bool = False  # whether old partitions keep their layout


@dataclass(frozen=True)
class RejectedTable:
    """A table, or keys of one, that nothing is proposed for, and why."""

    table: str
    reason: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suggestion:
    """A layout for a table that dbt does not build."""

    table: str
    spec: BucketSpec
    gain: float


@dataclass(frozen=True)
class QueryProof:
    """A model's query, planned as it is and under the proposal."""

    model: str
    unique_id: str
    runs: float
    before: Planned | None  # None where Spark could not plan it
    after: Planned | None
    error: str = ""
    parents: tuple[str, ...] = ()  # unique ids

    @property
    def is_worse(self) -> bool:
        """Whether it shuffles and sorts more bytes, or cannot be planned any more; or more operators of equal bytes."""
        if self.before is None:
            return False
        if self.after is None:
            return True
        return (self.after.bytes, self.after.counts) > (self.before.bytes, self.before.counts)

    @property
    def gain(self) -> float:
        """Bytes less, all runs; 0 where that is not known."""
        return (self.before.bytes - self.after.bytes) * self.runs if self.before and self.after else 0.0


@dataclass(frozen=True)
class Candidate:
    """A layout of one table, for --explain."""

    spec: BucketSpec
    alone: float  # bytes spared where no other table changes, less the cost of writing
    beside: float  # the same beside the layouts that are proposed for others
    verdict: str  # proposed, or why not
    serves: tuple[str, ...] = ()  # queries


@dataclass(frozen=True)
class Explanation:
    """All candidates of one table."""

    table: str
    candidates: tuple[Candidate, ...]
    left_out: tuple[RejectedTable, ...]


@dataclass(frozen=True)
class Advice:
    """All of it."""

    changes: tuple[Change, ...] = ()
    proof: tuple[QueryProof, ...] = ()
    left_out: tuple[RejectedTable, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    explained: Explanation | None = None
    edits: tuple[FileEdit, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    applied: bool = False
    planner: str = ""
    about: Mapping[str, str] = field(default_factory=dict)

    def counts(self, when: str) -> PlanCounts:
        """Exchanges and Sorts of all queries that were planned both times; `before` or `after`."""
        both = (one for one in self.proof if one.before and one.after)
        return sum((getattr(one, when).counts for one in both), PlanCounts())

    def bytes(self, when: str) -> float:
        """Bytes that these shuffle and sort, all runs."""
        return float(sum(getattr(one, when).bytes * one.runs for one in self.proof if one.before and one.after))

    @property
    def write_cost(self) -> float:
        """Bytes that writing costs more, all runs."""
        return sum(change.write_cost for change in self.changes)

    @property
    def worse(self) -> tuple[QueryProof, ...]:
        """Queries that become worse."""
        return tuple(one for one in self.proof if one.is_worse)
