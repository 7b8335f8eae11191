"""Tests of which statements in event logs count as runs of a model."""

from __future__ import annotations

import bz2
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from log_events import CREATE, END, INSERT, application, comment, statement, without_end, write_log

from spark_bucketing.advice.workload import measured_runs
from spark_bucketing.cli import main
from spark_bucketing.errors import EventLogError
from spark_bucketing.event_log.comparison import Comparison, compare
from spark_bucketing.event_log.measured import AD_HOC, Measured, read_measured

REVENUE = "model.shop.revenue"


def _build(number: int, about: str) -> bytes:
    """Return the statements of a run of the model with a post-hook that writes a log table."""
    return statement(number, about, "shop.revenue", CREATE) + statement(number + 1, about, "audit.log")


def _four_runs(**fields: str) -> list[bytes]:
    """Return four dbt invocations that each run the model."""
    listed, about = comment(**fields), comment(REVENUE, **fields)
    return [statement(10 * one, listed) + _build(10 * one + 1, about) for one in range(4)]


def _runs(compared: Comparison) -> dict[str, int]:
    return {node.node: len(node.differences["seconds"].after) for node in compared.nodes}


@pytest.mark.parametrize("target", [{}, {"target_name": "dev"}])
def test_writes_outside_dbt_are_not_runs_of_a_model(tmp_path: Path, target: dict[str, str]) -> None:
    runs = _four_runs(**target)
    plain = read_measured([write_log(tmp_path / "plain", runs)])
    by_hand = [statement(50, table="shop.revenue"), statement(51, table="audit.log")]
    # The statements are in the same application, or in another application.
    same = read_measured([write_log(tmp_path / "same", [*runs, *by_hand])])
    write_log(tmp_path / "both" / "dbt", runs)
    for number in range(5):
        write_log(tmp_path / "both" / f"nightly-{number}", by_hand)
    for after in (same, read_measured([str(tmp_path / "both")])):
        compared = compare(plain, after)
        assert _runs(compared) == {REVENUE: 4}
        # Each run takes 1.5 seconds; a replaced run would take 0.5 seconds.
        assert compared.nodes[0].differences["seconds"].after == (1.5,) * 4
        assert compared.only_after == ("table.audit.log",)
        assert measured_runs(after, {"shop.revenue": REVENUE, "shop.log": "model.shop.log"}) == {REVENUE: 4}


def test_runs_without_a_comment_are_those_of_the_models_own_table(tmp_path: Path) -> None:
    before = read_measured([write_log(tmp_path / "before", _four_runs())])
    for number in range(4):
        write_log(tmp_path / "after" / f"app-{number}", [_build(1, "")])
    compared = compare(before, read_measured([str(tmp_path / "after")]))
    assert _runs(compared) == {REVENUE: 4} and compared.only_after == ("table.audit.log",)


def test_tables_of_one_model_do_not_share_runs(tmp_path: Path) -> None:
    """The model wrote two schemas, and the later logs contain writes to both without a comment."""
    about = comment(REVENUE)
    old = write_log(tmp_path / "old", [statement(1, about, "a.revenue"), statement(2, about, "b.revenue")])
    log = write_log(tmp_path / "new", [statement(1, table="a.revenue"), statement(5, table="b.revenue")])
    (node,) = compare(read_measured([old]), read_measured([log])).nodes
    assert node.differences["seconds"].after == (0.5,)


BUCKETS = ", 4 buckets, bucket columns: [id]"


@pytest.mark.parametrize(
    ("node", "written", "own"),
    [
        (REVENUE, [("s.revenue", INSERT, ""), ("s.log", CREATE, "")], "s.revenue"),
        (REVENUE, [("s.log", CREATE, ""), ("s.revenue", INSERT, "")], "s.revenue"),
        ("model.shop.Sales.v2", [("s.sales_v2", INSERT, ""), ("s.sales", CREATE, "")], "s.sales_v2"),
        # A model with an alias, and hooks
        (REVENUE, [("s.alias", CREATE, ""), ("s.log", INSERT, "")], "s.alias"),
        (REVENUE, [("s.log", INSERT, ""), ("s.alias", INSERT, BUCKETS)], "s.alias"),
        (REVENUE, [("s.alias", CREATE, ""), ("s.log", CREATE, "")], None),
        # A view with a hook
        (REVENUE, [("s.log", INSERT, "")], None),
        ("operation.shop.end-0", [("s.end-0", CREATE, "")], None),
    ],
)
def test_a_model_owns_the_table_that_it_builds(
    tmp_path: Path, node: str, written: list[tuple[str, str, str]], own: str | None
) -> None:
    events = [statement(number, comment(node), *one) for number, one in enumerate(written)]
    assert read_measured([write_log(tmp_path / "app", events)]).writers == ({own: node} if own else {})


def test_writes_outside_dbt_read_buckets_like_other_tools() -> None:
    found = Measured(
        runs={REVENUE: {}, "table.shop.revenue": {}},
        bucketed={"s.t": {"table.shop.revenue"}},
        writers={"shop.revenue": REVENUE},
    )
    assert compare(found, found).after.bucketed == {"s.t": {AD_HOC}}


def test_statement_without_an_end_fails_the_run_in_which_it_started(tmp_path: Path) -> None:
    runs = _four_runs()
    lost = without_end(statement(1, comment(REVENUE), "shop.revenue", CREATE))
    runs[0] = statement(0, comment()) + lost + statement(2, comment(REVENUE), "audit.log")
    found = read_measured([write_log(tmp_path / "app", runs)])
    assert [run.started for run in found.runs_of(REVENUE)] == [11_000, 21_000, 31_000]
    assert found.counts.warnings == ["Ignored 1 statement without an end."]


@pytest.mark.parametrize("number", range(1, 4))
def test_log_with_the_most_events_of_an_application_counts(tmp_path: Path, number: int) -> None:
    content = Path(write_log(tmp_path / "app", _four_runs())).read_bytes()
    # The path of the truncated copy is first or last.
    for name in ("a", "z"):
        (tmp_path / name).write_bytes(content[: len(content) * number // 4])
        found = read_measured([str(tmp_path)])
        assert len(found.runs_of(REVENUE)) == 4 and found.counts.copies == 1 and found.counts.applications == 1
        (tmp_path / name).unlink()


def test_concatenated_logs_count_each_application_once(tmp_path: Path) -> None:
    logs = [Path(write_log(tmp_path / name, _four_runs())).read_bytes() for name in ("one", "two")]
    (tmp_path / "all" / "log").parent.mkdir()
    (tmp_path / "all" / "log").write_bytes(b"".join([*logs, *logs]))
    found = read_measured([str(tmp_path / "all")])
    assert len(found.runs_of(REVENUE)) == 8 and (found.counts.copies, found.counts.applications) == (2, 2)


def test_files_without_events_are_named(tmp_path: Path) -> None:
    content = Path(write_log(tmp_path / "app", _four_runs())).read_bytes()
    others = {"a.bz2": bz2.compress(content), "b": b"root:x:0:0\nuser:x:1:1\n", "c": b"", "d": b"\x28\xb5\x2f\xfdno"}
    for name, other in others.items():
        (tmp_path / name).write_bytes(other)
    found = read_measured([str(tmp_path)])
    names = ", ".join(str(tmp_path / name) for name in others)
    assert found.counts.warnings == [f"Skipped 4 files without events: {names}."]
    assert len(found.runs_of(REVENUE)) == 4
    for name in (*others, "/dev/null"):
        with pytest.raises(EventLogError, match=f"No event log was found in `.*{name}`"):
            read_measured([str(tmp_path / name)])
    done = CliRunner().invoke(main, ["report", "--before", str(tmp_path / "c"), "--after", str(tmp_path / "app")])
    assert done.exit_code == 2 and "found:    1 file without events" in done.output


@pytest.mark.parametrize("damaged", [b"", b"damaged", b"damaged\n"])
def test_rolling_file_without_events_is_a_gap(tmp_path: Path, damaged: bytes) -> None:
    content = Path(write_log(tmp_path / "app", _four_runs())).read_bytes().splitlines(keepends=True)
    (tmp_path / "events_1_x").write_bytes(b"".join(content[:12]))
    (tmp_path / "events_2_x").write_bytes(damaged)
    (tmp_path / "events_3_x").write_bytes(b"".join(content[13:]))
    (tmp_path / "app").unlink()
    assert len(read_measured([str(tmp_path)]).runs_of(REVENUE)) < 4


def test_last_line_needs_no_newline(tmp_path: Path) -> None:
    log = Path(write_log(tmp_path / "app", _four_runs()))
    log.write_bytes(log.read_bytes().rstrip(b"\n"))
    found = read_measured([str(log)])
    assert len(found.runs_of(REVENUE)) == 4 and found.counts.warnings == []
    log.write_bytes(log.read_bytes()[:-1])
    found = read_measured([str(log)])
    assert len(found.runs_of(REVENUE)) == 3 and found.counts.truncated_files == 1


def test_pipes_are_read(tmp_path: Path) -> None:
    log = Path(write_log(tmp_path / "app", _four_runs()))
    reader, writer = os.pipe()
    os.write(writer, log.read_bytes())
    os.close(writer)
    # A shell passes such a path for `<(...)`, and /dev/stdin links to one.
    done = CliRunner().invoke(
        main, ["report", "--before", f"/dev/fd/{reader}", "--after", log.as_uri().upper()[:4] + log.as_uri()[4:]]
    )
    os.close(reader)
    assert done.exit_code == 0 and "4 -> 4" in done.output, done.output


def test_last_run_of_a_log_without_the_end_of_the_application_does_not_count(tmp_path: Path) -> None:
    runs = _four_runs()
    assert len(read_measured([write_log(tmp_path / "app", runs, b"")]).runs_of(REVENUE)) == 3
    # The next invocation shows that the last run is complete.
    found = read_measured([write_log(tmp_path / "app", [*runs, statement(90, comment())], b"")])
    assert len(found.runs_of(REVENUE)) == 4 and found.counts.warnings == []


def test_run_before_another_model_is_complete(tmp_path: Path) -> None:
    events = [statement(number, comment(f"model.shop.{name}"), f"s.{name}") for number, name in enumerate("abc")]
    # Models that run at the same time
    events[1], events[2] = without_end(events[1]), events[2] + events[1].splitlines(keepends=True)[1]
    assert read_measured([write_log(tmp_path / "app", events, b"")]).nodes() == ["model.shop.a"]
    assert len(read_measured([write_log(tmp_path / "app", events)]).nodes()) == 3


def test_applications_with_the_same_number_of_events_are_not_mixed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    lost = without_end(statement(1, comment(REVENUE), "shop.revenue"))
    log.write_bytes(
        application("one") + lost + application("two") + statement(1, comment(REVENUE), "shop.revenue") + END
    )
    found = read_measured([str(log)])
    assert [run.counts for run in found.runs[REVENUE].values()] == [False, True] and found.counts.unfinished == 1


def _log_of_targets(folder: Path, *targets: str) -> str:
    """Write a log for each target; an empty name omits the target from the query comments."""
    for number, target in enumerate(targets):
        write_log(folder / f"app-{number}", _four_runs(**({"target_name": target} if target else {})))
    return str(folder)


def test_runs_of_different_targets_are_kept_apart(tmp_path: Path) -> None:
    logs = _log_of_targets(tmp_path, "dev", "prod", "prod", "")
    numbers = {target: read_measured([logs], target=target).number_of_runs for target in ("dev", "prod")}
    # Statements without a target always count.
    assert numbers == {"dev": 8, "prod": 12}
    found = read_measured([logs], target="dev")
    assert found.target == "dev" and "8 runs of models in the target dev" in found.summary
    assert found.counts.files == 4 and found.writers == {"shop.revenue": REVENUE}
    for target in (None, "test"):
        with pytest.raises(EventLogError, match=r"found:    dev, prod\n.*\n  instead:  .*--target dev"):
            read_measured([logs], target=target)


def test_logs_of_one_target_need_no_choice(tmp_path: Path) -> None:
    logs = _log_of_targets(tmp_path, "prod", "prod")
    for target in (None, "dev", "prod"):
        found = read_measured([logs], target=target)
        assert (found.target, found.number_of_runs) == ("prod", 8)
    assert read_measured([_log_of_targets(tmp_path / "none", "")], target="dev").target == ""


def test_report_counts_the_runs_of_one_target(tmp_path: Path) -> None:
    logs, none = _log_of_targets(tmp_path / "logs", "dev", "prod"), _log_of_targets(tmp_path / "none", "")

    def report(before: str, after: str, *options: str, code: int = 2) -> str:
        done = CliRunner().invoke(main, ["report", "--before", before, "--after", after, *options])
        assert done.exit_code == code, done.output
        return done.output if code else done.stdout

    failed = report(logs, logs)
    assert "found:    dev, prod" in failed and "--target dev" in failed
    assert report(logs, logs, "--target", "prod", code=0).count("4 runs of models in the target prod, ") == 2
    data = json.loads(report(logs, logs, "--target", "prod", "--format", "json", code=0))
    assert {one["target"] for one in data["logs"].values()} == {"prod"}
    # The logs before have no target.
    failed = report(none, logs, "--target", "prod")
    assert "no run of the dbt target `prod`" in failed and "query comments without target_name" in failed
    assert "found:    dev before, prod after" in report(f"{logs}/app-0", f"{logs}/app-1")
