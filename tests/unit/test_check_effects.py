"""Tests of the effects of fixes on a project's other queries, and of the time limit."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from spark_bucketing.checks.checker import TimeLimit
from spark_bucketing.checks.results import Finding, Fix, ModelResult, OperatorResult, OtherQuery, Verdict
from spark_bucketing.checks.verdicts import required_specs, serves_all, with_effects, worse_for
from spark_bucketing.errors import PlanError
from spark_bucketing.plan.document import PlanCounts, TableFacts
from spark_bucketing.spec import BucketSpec

BY_K, BY_J = (BucketSpec(8, (name,), (name,), "hive") for name in "kj")
TABLE = TableFacts("s.t", {"k": "int", "j": "int"}, BY_K)
FIX = Fix("bucket_spec", "Bucket s.t by j.", table="s.t", spec=BY_J, before=PlanCounts(1, 1))


@dataclass
class Query:
    """A fake query whose plan has these Exchanges and Sorts, and different numbers after a change of the spec."""

    counts: PlanCounts
    changed: PlanCounts
    tables: dict[str, TableFacts] = field(default_factory=lambda: {"s.t": TABLE})

    def planned(self, changes: Any) -> Query:
        assert [(change.table, change.spec) for change in changes] == [("s.t", BY_J)]
        return replace(self, counts=self.changed)

    def forget(self) -> None:
        pass


def model(name: str, reason: str = "side-not-bucketed", kind: Any = "join", fix: Fix | None = FIX) -> ModelResult:
    finding = Finding(reason, "", ("s.t",), "warning" if fix else "note", (fix,) if fix else ())
    operator = OperatorResult(kind, "", Verdict.SHUFFLED, ("s.t",), 1, 1, (finding,))
    return ModelResult(name, f"{name}.sql", (operator,), unique_id=f"model.p.{name}")


def effects(first: ModelResult, *others: tuple[int, int]) -> Finding:
    queries: list[Any] = [(first, Query(PlanCounts(1, 1), PlanCounts()))]
    for i, (before, after) in enumerate(others):
        queries.append((model(f"other{i}", fix=None), Query(PlanCounts(before), PlanCounts(after))))
    (result,) = with_effects([first], queries)
    return result.operators[0].findings[0]


def test_fix_lists_its_effects_on_other_readers_of_the_table() -> None:
    (fix,) = effects(model("a"), (1, 0), (0, 1), (2, 2)).fixes
    assert fix.others == (
        OtherQuery("other0", PlanCounts(1), PlanCounts(0)),
        OtherQuery("other1", PlanCounts(0), PlanCounts(1)),
    )
    assert worse_for(fix) == ("other1",)


@pytest.mark.parametrize(
    ("others", "level"), [((), "warning"), (((0, 1),), "warning"), (((0, 1), (0, 1)), "note"), (((1, 0),), "warning")]
)
def test_grouping_by_too_few_columns_is_a_warning_only_if_the_project_gains(
    others: tuple[tuple[int, int], ...], level: str
) -> None:
    found = effects(model("a", "keys-miss-bucket-column", "aggregate"), *others)
    # With the same number of Exchanges, Sorts decide.
    assert found.level == level and bool(found.fixes) is (level == "warning")
    assert effects(model("a"), *others).level == "warning"


def test_query_that_spark_can_no_longer_plan_is_worse() -> None:
    fix = replace(FIX, others=(OtherQuery("b", PlanCounts(), None),))
    assert worse_for(fix) == ("b",) and serves_all(fix)
    assert not serves_all(replace(fix, others=fix.others * 2))


def test_tables_with_conflicting_requirements_are_listed() -> None:
    other = replace(FIX, spec=replace(BY_J, num_buckets=16), others=(OtherQuery("c", PlanCounts(1), PlanCounts()),))
    wanted = required_specs([model("a"), model("b", fix=other)])
    assert wanted == {
        "s.t": {
            "clustered_by=['j'], buckets=16, bucket_hash='hive'": ("b", "c"),
            "clustered_by=['j'], buckets=8, bucket_hash='hive'": ("a",),
        }
    }
    assert required_specs([model("a"), model("b")]) == {}
    # The second change of a fix counts, too.
    assert (
        required_specs([model("a"), model("b", fix=replace(other, table="s.u", also=(other,)))])["s.t"].keys()
        == wanted["s.t"].keys()
    )


def test_timeout_is_an_error_and_other_errors_are_raised() -> None:
    assert TimeLimit(10).run(lambda is_late: is_late()) is False
    with pytest.raises(PlanError, match=r"longer than 0\.1 s"):
        TimeLimit(0.1).run(lambda _: time.sleep(1))
    with pytest.raises(ZeroDivisionError):
        TimeLimit(10).run(lambda _: 1 // 0)


def test_no_query_starts_while_spark_still_runs_a_timed_out_query() -> None:
    limit, ended = TimeLimit(0.1), threading.Event()
    with pytest.raises(PlanError, match="longer than"):
        limit.run(lambda _: ended.wait(60))
    for _ in range(2):
        with pytest.raises(PlanError, match="still busy with an earlier query"):
            limit.run(lambda _: pytest.fail("The task ran at the same time as the abandoned one."))
    ended.set()
    found, deadline = "busy", time.monotonic() + 60
    while found == "busy" and time.monotonic() < deadline:
        with suppress(PlanError):
            found = limit.run(lambda _: "free")
    assert found == "free"
