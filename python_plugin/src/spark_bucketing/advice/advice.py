"""Define the results of `advise`, which the reports show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_bucketing.edits import FileEdit, Refusal
from spark_bucketing.event_log.plan_costs import Cost
from spark_bucketing.plan.document import PlanCounts
from spark_bucketing.spec import BucketSpec


@dataclass(frozen=True)
class ProposedSpec:
    """A new bucket spec for one model."""

    unique_id: str
    model: str
    table: str
    before: BucketSpec | None
    after: BucketSpec
    config: Mapping[str, object]  # the config keys to set
    bytes: int  # size of the table
    rewritten_bytes: int  # bytes of existing data that the next run rewrites
    how: str  # how the next run changes the layout
    gain_bytes: int  # estimated decrease in shuffled and sorted bytes, excluding the write cost
    write_bytes: int  # write cost: increase in bytes that the write shuffles and sorts
    lost: tuple[str, ...] = ()  # operators that need other keys, as "query (kind by columns)"
    measured: Cost | None = None  # measured cost of shuffles and sorts by the bucket columns; None without event logs


@dataclass(frozen=True)
class RejectedTable:
    """A table, or one combination of its key columns, that should not be bucketed, and the reason."""

    table: str
    reason: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suggestion:
    """A suggested bucket spec for a table that dbt does not build."""

    table: str
    spec: BucketSpec
    gain_bytes: int


@dataclass(frozen=True)
class PlanSizes(PlanCounts):
    """How much data the plan of a query shuffles and sorts."""

    shuffled_bytes: int = 0  # of the rows that Exchanges shuffle, if sizes are known
    sorted_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Return the bytes shuffled plus the bytes sorted."""
        return self.shuffled_bytes + self.sorted_bytes


@dataclass(frozen=True)
class QueryProof:
    """A model's query, as Spark plans it with the current and with the proposed bucket specs."""

    model: str
    unique_id: str
    runs: float
    before: PlanSizes | None  # None if Spark could not plan the query
    after: PlanSizes | None
    error: str | None = None
    parents: tuple[str, ...] = field(default=(), repr=False)  # unique ids
    tables: tuple[str, ...] = field(default=(), repr=False)  # names of the tables that Spark reads, also through views

    @property
    def is_worse(self) -> bool:
        """Return whether the query cannot be planned, moves more bytes, or the same bytes with more operators."""
        if self.before is None:
            return False
        if self.after is None:
            return True
        return (self.after.bytes, self.after) > (self.before.bytes, self.before)

    @property
    def gain(self) -> float:
        """Return by how many bytes shuffles and sorts decrease over all runs; 0 if unknown."""
        return (self.before.bytes - self.after.bytes) * self.runs if self.before and self.after else 0.0


@dataclass(frozen=True)
class Candidate:
    """One candidate bucket spec for a table, as --explain shows it."""

    spec: BucketSpec
    alone_bytes: int  # bytes saved if no other table changes, minus the write cost
    beside_bytes: int  # bytes saved with the proposed specs of other tables, minus the write cost
    verdict: str  # `proposed`, or the reason against the spec
    serves: tuple[str, ...] = ()  # queries


@dataclass(frozen=True)
class Candidates:
    """All candidate bucket specs for one table."""

    table: str
    candidates: tuple[Candidate, ...]
    left_out: tuple[RejectedTable, ...]


@dataclass(frozen=True)
class MeasuredKeys:
    """The measured cost of shuffling and sorting a table by certain columns, from event logs."""

    table: str
    columns: tuple[str, ...]
    cost: Cost = field(repr=False)


@dataclass(frozen=True)
class Advice:
    """The complete result of the advisor."""

    changes: tuple[ProposedSpec, ...] = ()
    proof: tuple[QueryProof, ...] = field(default=(), repr=False)
    left_out: tuple[RejectedTable, ...] = ()
    suggestions: tuple[Suggestion, ...] = field(default=(), repr=False)
    explained: Candidates | None = None
    edits: tuple[FileEdit, ...] = field(default=(), repr=False)
    refusals: tuple[Refusal, ...] = ()
    applied: bool = False
    planner: str = ""
    about: Mapping[str, str] = field(default_factory=dict)
    measured: tuple[MeasuredKeys, ...] = ()  # most expensive first; empty without event logs
    unattributed: Cost | None = None  # measured cost of no table and key; None without event logs
    event_logs: str = ""  # the logs that were read
    # Further specs that save shuffles and sorts, but less than they cost, and what they change in the queries. Empty,
    # unless they were requested.
    costly: tuple[ProposedSpec, ...] = field(default=(), repr=False)
    costly_proof: tuple[QueryProof, ...] = field(default=(), repr=False)

    def counts(self, when: str) -> PlanCounts:
        """Return the Exchanges and Sorts of all queries that have both plans. `when` is `before` or `after`."""
        both = (one for one in self.proof if one.before and one.after)
        return sum((getattr(one, when) for one in both), PlanCounts())

    def bytes(self, when: str) -> float:
        """Return the bytes that these queries shuffle and sort, over all runs. `when` is `before` or `after`."""
        return float(sum(getattr(one, when).bytes * one.runs for one in self.proof if one.before and one.after))

    @property
    def write_bytes(self) -> int:
        """Return how many more bytes the writes shuffle and sort over all runs."""
        return sum(change.write_bytes for change in self.changes)

    @property
    def worse(self) -> tuple[QueryProof, ...]:
        """Return the queries that the proposed specs make worse."""
        return tuple(one for one in self.proof if one.is_worse)
