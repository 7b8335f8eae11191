"""Tests of reading event logs, and of their costs in `advise` and `check`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from case_tables import cases
from log_events import CREATE, END, comment, statement
from plan_trees import branch, broadcast, built, exchange, grouping, join, measured, moved, op, plan, scan, sort, union
from report_pages import schema_errors, written

from spark_bucketing.advice.advice import Advice, ProposedSpec
from spark_bucketing.advice.report import write_html, write_json, write_text
from spark_bucketing.advice.subjects import measured_runs, ranked, unplanned_layouts, with_costs
from spark_bucketing.checks.results import Finding, ModelResult, OperatorResult, Report, Verdict
from spark_bucketing.cli.check import with_measured_costs
from spark_bucketing.cli.options import event_log
from spark_bucketing.event_log import log_files
from spark_bucketing.event_log.log_files import LogFile
from spark_bucketing.event_log.measured import Measured, Run, read_measured
from spark_bucketing.event_log.plan_costs import (
    UNATTRIBUTED,
    Accumulators,
    Cost,
    MeasuredOperator,
    TableKeys,
    plan_costs,
)
from spark_bucketing.extension.settings import as_profile, event_log_settings
from spark_bucketing.plan.document import Expression, PlanNode, Shuffle, Source
from spark_bucketing.spec import BucketSpec

CASE = Path(__file__).parents[1] / "cases" / "event_logs" / "tpch_plain.gz"
# This log was recorded with the session extension.
SHOP = CASE.with_name("spark_4.3_plain.gz")


@cache
def _plain() -> bytes:
    return gzip.decompress(CASE.read_bytes())


def _lines(event: str = "", log: Path = CASE) -> tuple[list[bytes], list[int]]:
    """Return the lines of a log, and the indexes of the lines with an event."""
    lines = gzip.decompress(log.read_bytes()).splitlines(keepends=True)
    return lines, [number for number, line in enumerate(lines) if event.encode() in line[:90]]


def _read(folder: Path, content: bytes, name: str = "app-1") -> Measured:
    """Write a file with this content, and read the logs in its folder."""
    (folder / name).write_bytes(content)
    return read_measured([str(folder)])


def test_runs_are_attributed_to_models_and_invocations() -> None:
    found = read_measured([str(CASE)])
    assert found.nodes() == ["model.tpch.orders", "model.tpch.q03", "model.tpch.q04"]
    assert all(len(found.runs_of(node)) == 5 for node in found.nodes())
    # The Spark UI shows these stage metrics.
    assert {run.work.shuffle_bytes for run in found.runs_of("model.tpch.q03")} == {5234440}
    assert found.counts.warnings == []
    assert found.writers == {f"tpch.{name}": f"model.tpch.{name}" for name in ("orders", "q03", "q04")}


@pytest.mark.parametrize("name", ["spark_4.3_plain", "spark_4.3_bucketed", "spark_3.5_plain"])
def test_documents_in_event_logs_match_their_schema(name: str) -> None:
    lines, numbers = _lines("SparkListenerBucketPlan", CASE.with_name(f"{name}.gz"))
    assert len(numbers) >= 4
    for number in numbers:
        document = json.loads(json.loads(lines[number])["document"])
        assert schema_errors("explain-buckets.schema.json", document) == []


SHOP_MODELS = tuple(f"model.shop.{name}" for name in ("customers", "orders", "revenue"))


# The log of spark_4.1 was recorded without the session extension.
@pytest.mark.parametrize(("log", "runs"), [("3.5_plain", 4), ("4.3_plain", 4), ("4.1", 2), ("4.3_bucketed", 4)])
def test_costs_are_attributed_to_models_and_columns(log: str, runs: int) -> None:
    found = read_measured([str(CASE.with_name(f"spark_{log}.gz"))])
    assert [len(found.runs_of(model)) for model in SHOP_MODELS] == [runs] * 3
    assert found.writers == {model.removeprefix("model."): model for model in SHOP_MODELS}
    assert found.counts.warnings == []
    tables = [f"shop.{table}" for table in ("customers", "orders")]
    assert found.bucketed == ({table: {SHOP_MODELS[-1]} for table in tables} if log == "4.3_bucketed" else {})
    revenue, costs = found.runs_of(SHOP_MODELS[-1]), found.costs(SHOP_MODELS[-1])
    assert set(costs) == ({TableKeys(table, ("customer_id",)) for table in tables} if "plain" in log else set())
    if log == "4.3_bucketed":
        assert [run.work.shuffle_bytes for run in revenue] == [0] * 4 and found.target == "t"
        # A bucketed write shuffles the rows by bucket.
        assert all(run.work.shuffle_bytes > 0 for run in found.runs_of("model.shop.orders"))
        return
    assert all(run.work.shuffle_bytes > 0 for run in revenue)
    # The costs of the two Exchanges equal the costs of the stages.
    total = sum(run.work.shuffle_bytes for run in revenue)
    assert sum(cost.shuffle_bytes for cost in costs.values()) == (total if costs else 0)
    if log == "4.3_plain":
        task_ms = sum(run.work.task_ms for run in revenue)
        assert 0.1 * task_ms < sum(cost.task_ms for cost in costs.values()) < 0.9 * task_ms


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], range]] = {
    "truncated": (lambda text: text[: len(text) * 2 // 3], range(1, 15)),
    "truncated archive": (lambda text: (packed := gzip.compress(text))[: len(packed) * 2 // 3], range(1, 15)),
    "text after an archive": (lambda text: gzip.compress(text) + b"trailing", range(15, 16)),
    "wrong checksum": (lambda text: (packed := gzip.compress(text))[:-8] + b"\0\0\0\0" + packed[-4:], range(15, 16)),
}


@pytest.mark.parametrize(("damaged", "runs"), DAMAGES.values(), ids=DAMAGES)
def test_damaged_and_truncated_logs_are_counted(tmp_path: Path, damaged: Callable[[bytes], bytes], runs: range) -> None:
    found = _read(tmp_path, damaged(_plain()), "app-1.inprogress")
    assert found.counts.truncated_files == 1 and found.number_of_runs in runs
    assert "Read 1 file up to a damaged or missing end." in found.counts.warnings


def test_broken_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    lines, _ = _lines()
    broken = [b"garbage\n", b'{"Event":"SparkListenerJobStart"\n', b'{"Event":"SparkListenerStageCompleted"}\n']
    found = _read(tmp_path, b"".join(lines[:5] + broken + lines[5:]))
    assert found.counts.broken_lines == 3
    assert found.counts.warnings == ["Skipped 3 broken lines, so the runs next to them do not count."]
    assert found.number_of_runs == 15


EVENTS = ("SQLExecutionStart", "JobStart", "StageCompleted", "SQLExecutionEnd")


@pytest.mark.parametrize(("event", "kept"), [*product(EVENTS, (300, 120, 40)), ("", 700), ("", 120)])
def test_run_with_a_broken_line_does_not_count(tmp_path: Path, event: str, kept: int) -> None:
    lines, of_event = _lines(f"SparkListener{event}")
    # Execution 495 is the last run of q04; its child 496 writes the table.
    first = next(number for number, line in enumerate(lines) if b'"executionId":495,' in line)
    found = [number for number in of_event if number > first] if event else [first]
    number = found[0]
    lines[number] = lines[number][: min(kept, len(lines[number]) - 3)] + b"\n"
    measured = _read(tmp_path, b"".join(lines))
    assert measured.counts.broken_lines == 1 and len(measured.runs_of("model.tpch.q04")) == 4
    # The line may belong to the run before it.
    assert sum(len(measured.runs_of(node)) for node in measured.nodes()) >= 13


def test_copies_of_a_log_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "app-1.gz").write_bytes(CASE.read_bytes())
    found, once = _read(tmp_path, _plain()), read_measured([str(CASE)])
    assert found.runs == once.runs and found.costs() == once.costs()
    assert found.counts.warnings == ["Skipped 1 copy of other logs."]


@pytest.mark.parametrize("other", [b'"Timestamp":1', b'"Timestamp":0,"App Attempt ID":"2"', None])
def test_attempts_of_an_application_are_different_runs(tmp_path: Path, other: bytes | None) -> None:
    content = _plain().replace(b"invocation_id", b"no")
    if other is None:
        # Without the start of the application
        content = content.partition(b"\n")[2]
    one = _read(tmp_path, content)
    found = _read(tmp_path, content.replace(b'"Timestamp":0', other, 1) if other else content, "app-2")
    assert found.number_of_runs == 2 * one.number_of_runs > 0
    works = [{run.work.shuffle_bytes for run in of.runs_of("model.tpch.q03")} for of in (one, found)]
    assert works[0] == works[1] and (other is None or found.counts.warnings == [])


def test_queries_of_a_model_are_not_runs(tmp_path: Path) -> None:
    found = _read(tmp_path, _plain() + statement(900, comment("model.tpch.q04", invocation_id="one")))
    assert "one" in {invocation for _, invocation in found.runs["model.tpch.q04"]}
    assert len(found.runs_of("model.tpch.q04")) == 5 and found.number_of_runs == 15
    assert found.costs() == read_measured([str(CASE)]).costs() and found.counts.warnings == []


@pytest.mark.parametrize("whole", [True, False])
def test_text_like_a_comment_does_not_attribute_a_statement(tmp_path: Path, whole: bool) -> None:
    """A Thrift Server logs the whole statement, here with dbt's comment at its end."""
    sql = f"create table t as select '{comment('model.p.other')}'\n/* {comment('model.p.m')} */"
    start, end = statement(1, sql, "s.t", CREATE).splitlines(keepends=True)
    found = _read(tmp_path, (start + end if whole else start[:-20] + b"\n" + end) + END)
    assert list(found.runs) == found.nodes() == (["model.p.m"] if whole else [])


def test_costs_do_not_include_failed_runs(tmp_path: Path) -> None:
    lines, ends = _lines("SparkListenerSQLExecutionEnd", SHOP)
    # The last statement is the last run of the model.
    lines[ends[-1]] = lines[ends[-1]].replace(b'"errorMessage":""', b'"errorMessage":"No."')
    whole, found = read_measured([str(SHOP)]), _read(tmp_path, b"".join(lines))
    assert len(found.runs_of("model.shop.revenue")) == 3
    keys = TableKeys("shop.orders", ("customer_id",))
    for node in ("model.shop.revenue", None):
        assert found.costs(node)[keys].shuffle_bytes * 4 == whole.costs(node)[keys].shuffle_bytes * 3


def test_local_paths_do_not_depend_on_the_project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = tmp_path / "my log"
    log.touch()
    monkeypatch.chdir(tmp_path)
    assert {event_log(given) for given in ("my log", str(log), f"file:{log}", log.as_uri())} == {str(log)}


@pytest.mark.parametrize("uri", ["s3a://logs/", "hdfs:/logs", "hdfs:///logs", "abfss://a@b.c/logs"])
def test_uris_of_other_file_systems_are_read_with_spark(monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    assert event_log(uri) == uri
    monkeypatch.setattr(log_files, "_hadoop_files", lambda path: [LogFile(f"{path}/app", 0, BytesIO)])
    assert [[file.path for file in log] for log in log_files.find_logs([uri])] == [[f"{uri}/app"]]


def _rolling(folder: Path) -> list[Path]:
    """Write the log as a rolling log of eleven files."""
    log = folder / "eventlog_v2_local-1"
    log.mkdir()
    (log / "appstatus_local-1").write_bytes(b"")
    lines, _ = _lines()
    size = len(lines) // 11 + 1
    files = [log / f"events_{one + 1}_local-1" for one in range(11)]
    for one, file in enumerate(files):
        file.write_bytes(b"".join(lines[one * size : (one + 1) * size]))
    return files


def test_rolling_log_is_read_in_order(tmp_path: Path) -> None:
    files = _rolling(tmp_path)
    found = read_measured([str(tmp_path)])
    assert found.number_of_runs == 15 and found.counts.files == 11 and found.counts.warnings == []
    # Events after a truncated file do not complete a run.
    files[4].write_bytes(files[4].read_bytes()[:-300])
    found = read_measured([str(tmp_path)])
    assert found.counts.truncated_files == 1 and found.counts.missing_files == 0
    assert sum(len(found.runs_of(node)) for node in found.nodes()) < 15


@pytest.mark.parametrize("missing", range(1, 11))
def test_runs_next_to_a_missing_rolling_file_do_not_count(tmp_path: Path, missing: int) -> None:
    _rolling(tmp_path)[missing - 1].unlink()
    found, whole = read_measured([str(tmp_path)]), read_measured([str(CASE)])
    assert found.counts.missing_files == 1
    assert "Rolling logs lack 1 file, so the runs next to a gap do not count." in found.counts.warnings
    every, counted = (
        [(node, run.seconds, run.work) for node in of.nodes() for run in of.runs_of(node)] for of in (whole, found)
    )
    assert 10 <= len(counted) < len(every) == 15
    assert all(run in every for run in counted)


def _writes(nodes: str, first: int = 0) -> list[bytes]:
    """Return a statement of each of these models, in one invocation of dbt."""
    return [
        statement(number, comment(f"model.p.{node}", invocation_id="one"), f"s.{node}")
        for number, node in enumerate(nodes, first)
    ]


def test_runs_of_parallel_models_do_not_continue_after_a_gap(tmp_path: Path) -> None:
    (tmp_path / "events_1_app").write_bytes(b"".join(_writes("abc")))
    found = _read(tmp_path, b"".join([*_writes("dbe", 3), END]), "events_4_app")
    # Statements of c, b and d may be in the missing files.
    assert found.nodes() == ["model.p.a", "model.p.e"] and found.counts.missing_files == 2
    # Statements that run during a gap fail.
    starts, ends = zip(*(events.splitlines(keepends=True) for events in _writes("abc")), strict=True)
    (tmp_path / "events_1_app").write_bytes(b"".join(starts))
    assert _read(tmp_path, b"".join(ends), "events_4_app").nodes() == []


def test_compacted_rolling_file_replaces_the_files_before_it(tmp_path: Path) -> None:
    files = _rolling(tmp_path)
    complete = read_measured([str(tmp_path)])
    compacted = files[3].with_name(f"{files[3].name}.compact")
    compacted.write_bytes(files[0].read_bytes().splitlines(keepends=True)[0])
    # Spark deletes the complete files only after it has written the compacted file.
    found = read_measured([str(tmp_path)])
    assert found.runs == complete.runs and found.counts.warnings == []
    for file in files[:4]:
        file.unlink()
    found = read_measured([str(tmp_path)])
    assert found.counts.missing_files == 0 and 0 < found.number_of_runs < 15
    assert "Spark's History Server deleted finished statements from 1 compacted file." in found.counts.warnings


def test_advice_counts_ad_hoc_queries_and_measured_costs() -> None:
    found = read_measured([str(SHOP)])
    (join_,) = (one for one in unplanned_layouts(found, {"model.shop.orders"}) if one.is_join)
    assert join_.query == "model.shop.revenue"
    assert {side.table for side in join_.sides} == {"shop.orders", "shop.customers"}
    assert measured_runs(found, {"shop.revenue": "model.shop.revenue"}) == {"model.shop.revenue": 4}
    first = ranked(found)[0]
    assert (first.table, first.columns) == ("shop.orders", ("customer_id",))
    spec = BucketSpec(4, ("customer_id",), ("customer_id",), "hive")
    change = ProposedSpec("model.shop.orders", "orders", "shop.orders", None, spec, {}, 1, 1, "", 1, 1)
    assert [one.measured for one in with_costs([change], ranked(found))] == [first.cost]


def test_numbers_of_runs_are_unknown_without_runs_of_the_projects_models() -> None:
    nodes = {"s.t": "model.p.T", "s.raw": "source.p.raw.raw"}
    run = {("app", "0"): Run(0, 1)}
    # Another tool writes its own table and a source of the project.
    others = {"table.other.t": run, "table.s.raw": run, "model.other.m": run}
    assert measured_runs(Measured(runs={**others}), nodes) == {}
    assert measured_runs(Measured(runs={**others, "table.s.t": run}), nodes) == {"model.p.t": 1, "source.p.raw.raw": 1}


@cases("event_logs/finding_costs", table=..., key=..., runs=..., measured=...)
def test_costs_of_a_finding_are_those_of_its_columns_and_its_model(
    table: str, key: str, runs: dict[str, str], measured: str
) -> None:
    costs: Any = {MeasuredOperator("join", ()): {TableKeys("s.t", ("id",)): Cost(shuffle_bytes=1024)}}
    of = {"costly": Run(0, 1, operators=costs), "failed": Run(0, 1, failed=True)}
    log = {node: {("app", str(n)): of[run] for n, run in enumerate(some.split())} for node, some in runs.items()}
    findings = (Finding("x", "It shuffles.", (table,)),)
    operator = OperatorResult("join", f"s.t.{key} = s.u.{key}", Verdict.SHUFFLED, findings=findings)
    report = Report((ModelResult("m", "", (operator,), unique_id="model.p.m", table="s.m"),))
    (model,) = with_measured_costs(report, Measured(runs=log)).models
    cost = f"\nMean cost per run, measured in {measured}: 1.0 KiB shuffled"
    assert model.operators[0].findings[0].message.startswith(f"It shuffles.{cost if measured != '0 runs' else ''}")
    assert (model.operators == (operator,)) == (measured == "0 runs")


def operator_costs(root: PlanNode, accumulators: Accumulators) -> dict[MeasuredOperator, dict[TableKeys, Cost]]:
    found = plan_costs(plan(root), accumulators)
    return {operator: costs for operator, costs in found.items() if UNATTRIBUTED not in costs}


def shuffled(root: PlanNode, values: dict[int, int]) -> dict[TableKeys, int]:
    """Return the shuffled bytes of tables and keys."""
    found = operator_costs(root, Accumulators(values))
    return {keys: cost.shuffle_bytes for costs in found.values() for keys, cost in costs.items()}


def branches() -> PlanNode:
    # The rows of the last branch come from another shuffle.
    spread = op("Exchange", scan("c", 20), kind="exchange", shuffle=Shuffle("round robin"))
    other = measured(spread, shuffleRecordsWritten=13)
    return union(branch("a", 1, 11), branch("b", 10, 12), other)


@pytest.mark.parametrize("sorts", [False, True])
@pytest.mark.parametrize("expression", [False, True])
def test_keys_are_columns_and_not_expressions(sorts: bool, expression: bool) -> None:
    table = scan("a", 1)
    key = Expression("k", "bigint", 9, (Source(table, "k", 1, wrapped=expression),))
    below = moved("k", op("Project", table, kind="project", output=(key,)))
    top = join("k", "k", sort("k", below) if sorts else below, scan("b", 5))
    assert shuffled(top, {1: 5}) == ({} if expression else {TableKeys("d.a", ("k",)): 5})


@pytest.mark.parametrize(
    ("rows", "a", "b"),
    [
        ({11: 100, 12: 300, 13: 600}, 0.1, 0.3),
        ({11: 0, 12: 300, 13: 0}, 0, 1),
        # Without all numbers of rows, the branches share equally.
        ({11: 100, 12: 300}, 1 / 3, 1 / 3),
        ({11: 0, 12: 0, 13: 0}, 1 / 3, 1 / 3),
    ],
)
@pytest.mark.parametrize("sorts", [False, True])
def test_tables_below_a_union_share_the_cost_by_their_rows(
    rows: dict[int, int], a: float, b: float, sorts: bool
) -> None:
    top = moved("v", branches())
    if sorts:
        top = measured(sort("v", top), sortTime=4)
    expected = {TableKeys("d.a", ("v",)): a, TableKeys("d.b", ("v",)): b}
    accumulators = Accumulators({1: 1000, 2: 500, 3: 60, 4: 40, **rows}, {1: 900})
    ((operator, costs),) = operator_costs(grouping("v", "Final", top), accumulators).items()
    assert operator == MeasuredOperator("aggregate", tuple(expected))
    assert costs == {
        keys: Cost(round(1000 * part), round(500 * part), pytest.approx((960 + 40 * sorts) * part))  # type: ignore[arg-type]
        for keys, part in expected.items()
    }


def test_sums_include_costs_of_no_table_and_key() -> None:
    of_a_write = plan_costs(plan(sort("k", moved("k", scan("t", 1)))), Accumulators({1: 5}))
    assert list(of_a_write.values()) == [{UNATTRIBUTED: Cost(shuffle_bytes=5)}]
    again = measured(exchange("k", moved("k", branches())), shuffleBytesWritten=21, spillSize=22)
    values = {1: 1000, 2: 500, 3: 60, 11: 100, 12: 300, 13: 600, 21: 70, 22: 7}
    found = plan_costs(plan(grouping("k", "Final", again)), Accumulators(values))
    rest = found[MeasuredOperator("other", ())][UNATTRIBUTED]
    assert (rest.shuffle_bytes, rest.spill_bytes) == (600 + 70, 300 + 7)
    logs = Measured(runs={"model.p.m": {("app", "1"): Run(0, 1, operators=found)}})
    assert logs.unattributed == rest and UNATTRIBUTED not in logs.costs()
    advice = Advice(measured=ranked(logs), unattributed=logs.unattributed, event_logs="1 file.")
    for write in (write_text, write_html):
        shown = written(write, advice)
        assert "not attributed to a table and key: 670 bytes shuffled, 307 bytes spilled" in shown
    assert json.loads(written(write_json, advice))["unattributed"]["shuffle_bytes"] == 670


@cases("plans/costs", tree=..., values=..., costs=...)
def test_costs_are_those_of_the_tables_whose_columns_are_keys(
    tree: list[Any], values: dict[int, int], costs: dict[str, int]
) -> None:
    found = shuffled(built(tree), values)
    assert {f"{keys.table}.{'.'.join(map(str, keys.columns))}": size for keys, size in found.items()} == costs


def test_columns_of_a_union_with_the_same_source_are_told_apart_by_their_ids() -> None:
    first = branch("a", 1, 11)
    k = first.output[0]
    names = op("Project", first, kind="project", output=(replace(k, text="x"), replace(k, text="y", id=3)))
    found = shuffled(grouping("y", "Final", moved("y", union(names, branch("b", 10, 12)))), {1: 9, 11: 1, 12: 1})
    assert set(found) == {TableKeys("d.a", ("k",)), TableKeys("d.b", ("v",))}


@pytest.mark.parametrize("kind", ["aggregate", "join"])
def test_measured_requirements_of_a_union_are_united(kind: Any) -> None:
    keys = TableKeys("s.a", ("k",)), TableKeys("s.b", ("k",))
    operators = {MeasuredOperator(kind, keys): {one: Cost(8) for one in keys}}
    (found,) = unplanned_layouts(Measured(ad_hoc_operators=operators), set())
    assert (found.united, found.is_join) == (kind == "aggregate", kind == "join")


@pytest.mark.parametrize(("run_ms", "task_ms"), [(900, 707), (150, 7)])
def test_task_time_is_the_time_of_the_tasks_that_wrote_the_shuffle(run_ms: int, task_ms: int) -> None:
    other = broadcast(measured(scan("b", 10), scanTime=6))
    joined = join("k", "k", measured(scan("a", 1), scanTime=5), other, name="BroadcastHashJoin")
    # The tasks also spent 200 ms to scan the table. Another stage scanned the small table.
    accumulators = Accumulators({1: 10, 3: 7, 5: 200, 6: 1000}, {1: run_ms})
    (costs,) = operator_costs(grouping("k", "Final", moved("k", joined)), accumulators).values()
    assert {keys.table: cost.task_ms for keys, cost in costs.items()} == {"d.a": task_ms}


@pytest.mark.parametrize("cost", [Cost(1), Cost(0, 1), Cost(task_ms=49), Cost(task_ms=51)])
def test_costs_that_the_text_shows_as_zero_are_not_notable(cost: Cost) -> None:
    assert cost.is_notable == (str(cost) != str(Cost()))


def test_extension_conf_prints_the_settings_of_event_logs() -> None:
    assert as_profile(event_log_settings("file:///logs")).splitlines()[1:] == [
        '  spark.eventLog.enabled: "true"',
        '  spark.eventLog.dir: "file:///logs"',
        '  spark.eventLog.compress: "true"',
    ]


@pytest.mark.parametrize("document", ["[" * 100_000, "{}", '{"version": 2}'])
def test_documents_that_python_cannot_read_are_broken_lines(tmp_path: Path, document: str) -> None:
    lines, (number, *_) = _lines("SparkListenerBucketPlan", SHOP)
    event = json.loads(lines[number]) | {"document": document}
    lines[number] = json.dumps(event, separators=(",", ":")).encode() + b"\n"
    assert _read(tmp_path, b"".join(lines)).counts.broken_lines == 1
