"""Tests of which statements in event logs are runs of a model, and of the comparison of runs."""

from __future__ import annotations

import bz2
import errno
import gzip
import json
import os
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from case_tables import cases
from click.testing import CliRunner
from log_events import CREATE, END, INSERT, application, comment, statement, without_end, write_log
from report_pages import written

from conftest import REPOSITORY
from spark_bucketing.advice.subjects import measured_runs
from spark_bucketing.cli import main, options
from spark_bucketing.errors import EventLogError
from spark_bucketing.event_log.measured import AD_HOC, Measured, Run, Work, read_measured
from spark_bucketing.event_log.report import Comparison, Difference, compare, rows, write_html, write_json, write_text

REVENUE = "model.shop.revenue"


def _build(number: int, about: str) -> bytes:
    """Return the statements of a run of the model with a post-hook that writes a log table."""
    return statement(number, about, "shop.revenue", CREATE) + statement(number + 1, about, "audit.log")


def _four_runs(**fields: str) -> list[bytes]:
    """Return four dbt invocations that each run the model."""
    listed, about = comment(**fields), comment(REVENUE, **fields)
    return [statement(10 * one, listed) + _build(10 * one + 1, about) for one in range(4)]


def _read(*logs: str | Path, target: str | None = None) -> Measured:
    return read_measured([str(log) for log in logs], target=target)


def _runs(compared: Comparison) -> dict[str, int]:
    return {node.node: len(node.differences["seconds"].after) for node in compared.nodes}


def _report(before: object, after: object, *options: str, code: int = 0) -> str:
    """Run the command `report`, and return its output."""
    done = CliRunner().invoke(main, ["report", "--before", str(before), "--after", str(after), *options])
    assert done.exit_code == code, done.output
    return done.output if code else done.stdout


@pytest.mark.parametrize("target", [{}, {"target_name": "dev"}])
def test_writes_outside_dbt_are_not_runs_of_a_model(tmp_path: Path, target: dict[str, str]) -> None:
    runs = _four_runs(**target)
    plain = _read(write_log(tmp_path / "plain", runs))
    by_hand = [statement(50, table="shop.revenue"), statement(51, table="audit.log")]
    # The statements are in the same application, or in another application.
    same = _read(write_log(tmp_path / "same", [*runs, *by_hand]))
    write_log(tmp_path / "both" / "dbt", runs)
    for number in range(5):
        write_log(tmp_path / "both" / f"nightly-{number}", by_hand)
    for after in (same, _read(tmp_path / "both")):
        compared = compare(plain, after)
        assert _runs(compared) == {REVENUE: 4}
        # Each run takes 1.5 seconds; a replaced run would take 0.5 seconds.
        assert compared.nodes[0].differences["seconds"].after == (1.5,) * 4
        assert compared.only_after == ("table.audit.log",)
        assert measured_runs(after, {"shop.revenue": REVENUE, "shop.log": "model.shop.log"}) == {REVENUE: 4}


def test_runs_without_a_comment_are_those_of_the_models_own_table(tmp_path: Path) -> None:
    before = _read(write_log(tmp_path / "before", _four_runs()))
    for number in range(4):
        write_log(tmp_path / "after" / f"app-{number}", [_build(1, "")])
    compared = compare(before, _read(tmp_path / "after"))
    assert _runs(compared) == {REVENUE: 4} and compared.only_after == ("table.audit.log",)


def test_tables_of_one_model_do_not_share_runs(tmp_path: Path) -> None:
    """The model wrote two schemas, and the later logs contain writes to both without a comment."""
    about = comment(REVENUE)
    old = write_log(tmp_path / "old", [statement(1, about, "a.revenue"), statement(2, about, "b.revenue")])
    log = write_log(tmp_path / "new", [statement(1, table="a.revenue"), statement(5, table="b.revenue")])
    (node,) = compare(_read(old), _read(log)).nodes
    assert node.differences["seconds"].after == (0.5,)


@cases("event_logs/owners", node=..., written=..., own=None)
def test_a_model_owns_the_table_that_it_builds(
    tmp_path: Path, node: str, written: list[list[str]], own: str | None
) -> None:
    commands, buckets = {"insert": INSERT, "create": CREATE}, ", 4 buckets, bucket columns: [id]"
    events = [
        statement(number, comment(node), table, commands[command], buckets if bucketed else "")
        for number, (table, command, *bucketed) in enumerate(written)
    ]
    assert _read(write_log(tmp_path / "app", events)).writers == ({own: node} if own else {})


def test_writes_outside_dbt_read_buckets_like_other_tools() -> None:
    by_hand = "table.shop.revenue"
    found = Measured(runs={REVENUE: {}, by_hand: {}}, bucketed={"s.t": {by_hand}}, writers={"shop.revenue": REVENUE})
    assert compare(found, found).after.bucketed == {"s.t": {AD_HOC}}


def test_statement_without_an_end_fails_the_run_in_which_it_started(tmp_path: Path) -> None:
    runs = _four_runs()
    lost = without_end(statement(1, comment(REVENUE), "shop.revenue", CREATE))
    runs[0] = statement(0, comment()) + lost + statement(2, comment(REVENUE), "audit.log")
    found = _read(write_log(tmp_path / "app", runs))
    assert [run.started for run in found.runs_of(REVENUE)] == [11_000, 21_000, 31_000]
    assert found.counts.warnings == ["Ignored 1 statement without an end."]
    # Applications with the same number of events are not mixed.
    log, whole = tmp_path / "log", statement(1, comment(REVENUE), "shop.revenue")
    log.write_bytes(application("one") + without_end(whole) + application("two") + whole + END)
    found = _read(log)
    assert [run.counts for run in found.runs[REVENUE].values()] == [False, True] and found.counts.unfinished == 1


@pytest.mark.parametrize("number", range(1, 4))
@pytest.mark.parametrize("copy", ["a", "z"])
def test_log_with_the_most_events_of_an_application_counts(tmp_path: Path, number: int, copy: str) -> None:
    content = Path(write_log(tmp_path / "app", _four_runs())).read_bytes()
    # The path of the truncated copy is first or last.
    (tmp_path / copy).write_bytes(content[: len(content) * number // 4])
    found = _read(tmp_path)
    assert len(found.runs_of(REVENUE)) == 4 and found.counts.copies == 1 and found.counts.applications == 1


def test_concatenated_logs_count_each_application_once(tmp_path: Path) -> None:
    logs = [Path(write_log(tmp_path / name, _four_runs())).read_bytes() for name in ("one", "two")]
    (tmp_path / "all" / "log").parent.mkdir()
    (tmp_path / "all" / "log").write_bytes(b"".join([*logs, *logs]))
    found = _read(tmp_path / "all")
    assert len(found.runs_of(REVENUE)) == 8 and (found.counts.copies, found.counts.applications) == (2, 2)


def test_files_without_events_are_named(tmp_path: Path) -> None:
    content = Path(write_log(tmp_path / "app", _four_runs())).read_bytes()
    others = {"a.bz2": bz2.compress(content), "b": b"root:x:0:0\nuser:x:1:1\n", "c": b"", "d": b"\x28\xb5\x2f\xfdno"}
    for name, other in others.items():
        (tmp_path / name).write_bytes(other)
    found = _read(tmp_path)
    names = ", ".join(str(tmp_path / name) for name in others)
    assert found.counts.warnings == [f"Skipped 4 files without events: {names}."]
    assert len(found.runs_of(REVENUE)) == 4
    for name in (*others, "/dev/null"):
        with pytest.raises(EventLogError, match=f"No event log was found in `.*{name}`"):
            _read(tmp_path / name)
    (tmp_path / "empty").mkdir()
    with pytest.raises(EventLogError, match="contains no event log"):
        _read(tmp_path / "empty")
    assert "found:    1 file without events" in _report(tmp_path / "c", tmp_path / "app", code=2)


@pytest.mark.parametrize("damaged", [b"", b"damaged", b"damaged\n"])
def test_rolling_file_without_events_is_a_gap(tmp_path: Path, damaged: bytes) -> None:
    content = Path(write_log(tmp_path / "app", _four_runs())).read_bytes().splitlines(keepends=True)
    (tmp_path / "events_1_x").write_bytes(b"".join(content[:12]))
    (tmp_path / "events_2_x").write_bytes(damaged)
    (tmp_path / "events_3_x").write_bytes(b"".join(content[13:]))
    (tmp_path / "app").unlink()
    assert len(_read(tmp_path).runs_of(REVENUE)) < 4


@pytest.mark.parametrize(("cut", "runs"), [(1, 4), (2, 3)])
def test_last_line_needs_no_newline(tmp_path: Path, cut: int, runs: int) -> None:
    log = Path(write_log(tmp_path / "app", _four_runs()))
    log.write_bytes(log.read_bytes()[:-cut])
    found = _read(log)
    assert (len(found.runs_of(REVENUE)), found.counts.truncated_files) == (runs, cut - 1)
    assert bool(found.counts.warnings) == (cut > 1)


def test_pipes_are_read(tmp_path: Path) -> None:
    log = Path(write_log(tmp_path / "app", _four_runs()))
    reader, writer = os.pipe()
    os.write(writer, log.read_bytes())
    os.close(writer)
    # A shell passes such a path for `<(...)`, and /dev/stdin links to one.
    assert "4 -> 4" in _report(f"/dev/fd/{reader}", log.as_uri().upper()[:4] + log.as_uri()[4:])
    os.close(reader)


def test_last_run_of_a_log_without_the_end_of_the_application_does_not_count(tmp_path: Path) -> None:
    runs = _four_runs()
    assert len(_read(write_log(tmp_path / "app", runs, b"")).runs_of(REVENUE)) == 3
    # The next invocation shows that the last run is complete.
    found = _read(write_log(tmp_path / "app", [*runs, statement(90, comment())], b""))
    assert len(found.runs_of(REVENUE)) == 4 and found.counts.warnings == []
    # The run of another model shows that a run is complete, unless both models run at the same time.
    events = [statement(number, comment(f"model.shop.{name}"), f"s.{name}") for number, name in enumerate("abc")]
    events[1], events[2] = without_end(events[1]), events[2] + events[1].splitlines(keepends=True)[1]
    assert _read(write_log(tmp_path / "app", events, b"")).nodes() == ["model.shop.a"]
    assert len(_read(write_log(tmp_path / "app", events)).nodes()) == 3


def _log_of_targets(folder: Path, *targets: str) -> str:
    """Write a log for each target; an empty name omits the target from the query comments."""
    for number, target in enumerate(targets):
        write_log(folder / f"app-{number}", _four_runs(**({"target_name": target} if target else {})))
    return str(folder)


def test_runs_of_different_targets_are_kept_apart(tmp_path: Path) -> None:
    logs = _log_of_targets(tmp_path, "dev", "prod", "prod", "")
    numbers = {target: _read(logs, target=target).number_of_runs for target in ("dev", "prod")}
    # Statements without a target always count.
    assert numbers == {"dev": 8, "prod": 12}
    found = _read(logs, target="dev")
    assert found.target == "dev" and "8 runs of models in the target dev" in found.summary
    assert found.counts.files == 4 and found.writers == {"shop.revenue": REVENUE}
    for target in (None, "test"):
        with pytest.raises(EventLogError, match=r"found:    dev, prod\n.*\n  instead:  .*--target dev"):
            _read(logs, target=target)


def test_logs_of_one_target_need_no_choice(tmp_path: Path) -> None:
    logs = _log_of_targets(tmp_path, "prod", "prod")
    found = [_read(logs, target=target) for target in (None, "dev", "prod")]
    assert [(one.target, one.number_of_runs) for one in found] == [("prod", 8)] * 3
    assert _read(_log_of_targets(tmp_path / "none", ""), target="dev").target == ""


def test_report_counts_the_runs_of_one_target(tmp_path: Path) -> None:
    logs, none, prod = _log_of_targets(tmp_path / "logs", "dev", "prod"), tmp_path / "none", ("--target", "prod")
    failed = _report(logs, logs, code=2)
    assert "found:    dev, prod" in failed and "--target dev" in failed
    assert _report(logs, logs, *prod).count("4 runs of models in the target prod, ") == 2
    data = json.loads(_report(logs, logs, *prod, "--format", "json"))
    assert {one["target"] for one in data["logs"].values()} == {"prod"}
    # The logs before have no target.
    failed = _report(_log_of_targets(none, ""), logs, *prod, code=2)
    assert "no run of the dbt target `prod`" in failed and "query comments without target_name" in failed
    assert "found:    dev before, prod after" in _report(f"{logs}/app-0", f"{logs}/app-1", code=2)


CASE = REPOSITORY / "tests" / "cases" / "event_logs" / "tpch_plain.gz"
SHOP = ("customers", "orders", "revenue")


@cases("event_logs/verdicts", before=..., after=..., least=0, verdict=...)
def test_verdict_requires_a_noticeable_difference_beyond_noise(
    before: Any, after: Any, least: float | None, verdict: str | None
) -> None:
    runs = [tuple(of if isinstance(of, list) else (of + n / 1e6 for n in range(8))) for of in (before, after)]
    assert Difference(runs[0], runs[1], least).verdict == verdict


def _measured(table_ms: int, reader_ms: int, bucketed: bool = False) -> Measured:
    found = Measured(writers={"s.t": "model.p.t"}, bucketed={"s.t": {"model.p.r"}} if bucketed else {})
    for number in range(4):
        for node, time in (("model.p.t", table_ms), ("model.p.r", reader_ms)):
            run = Run(0, time + number, work=Work(task_ms=time + number))
            found.runs.setdefault(node, {})["app", str(number)] = run
    return found


@pytest.mark.parametrize(
    ("readers", "saved", "ad_hoc"), [({"model.p.r"}, 1, False), (set(), 0, False), ({"model.p.r", AD_HOC}, 1, True)]
)
def test_report_names_models_that_cost_more_than_they_save(readers: set[str], saved: float, ad_hoc: bool) -> None:
    after = _measured(15_000, 9_000, True)
    after.bucketed["s.t"] = readers
    compared = compare(_measured(10_000, 10_000), after)
    (costly,) = compared.costly
    assert (costly.node, costly.cost_seconds, costly.saved_seconds) == ("model.p.t", 5.0, saved)
    # The report suggests nothing for buckets that other queries read.
    shown = " ".join(written(write_text, compared).split())
    text = "Queries outside dbt also read its buckets, and the report cannot compare them."
    assert costly.ad_hoc_readers == (text in shown) == ad_hoc == ("materialized" not in shown)


def test_models_without_a_query_comment_are_identified_by_their_tables() -> None:
    before, after = _measured(10_000, 10_000), _measured(15_000, 9_000, True)
    before.runs["table.s.t"] = before.runs.pop("model.p.t")
    before.writers["s.t"] = "table.s.t"
    found = compare(before, after)
    assert [node.node for node in found.nodes] == ["model.p.r", "model.p.t"] and found.only_before == ()
    assert len(found.costly) == 1 and found.total is not None


def test_logs_with_and_without_a_query_comment_are_runs_of_the_same_models(tmp_path: Path) -> None:
    content = gzip.decompress(CASE.with_name("spark_4.1.gz").read_bytes())
    (tmp_path / "app-2").write_bytes(content)
    (tmp_path / "app-1").write_bytes(content.replace(b"node_id", b"no").replace(b"local-1", b"local-0"))
    both = _read(tmp_path)
    assert both.nodes() == sorted(f"{kind}.shop.{name}" for kind in ("model", "table") for name in SHOP)
    found = compare(both, both)
    # Writes without the comment are not runs, because the models have runs with the comment.
    runs = {node.node: len(node.differences["seconds"].before) for node in found.nodes}
    assert runs == {f"model.shop.{name}": 2 for name in SHOP} and found.only_before == ()


def test_logs_of_bucketed_runs_show_what_the_buckets_save() -> None:
    before, after = (_read(CASE.with_name(f"spark_4.3_{name}.gz")) for name in ("plain", "bucketed"))
    nodes = {one.node: one.differences["shuffle_bytes"].verdict for one in compare(before, after).nodes}
    assert nodes == {"model.shop.revenue": "gained", "model.shop.orders": "lost", "model.shop.customers": "lost"}


def test_tests_and_hooks_are_not_compared() -> None:
    after = _measured(15_000, 4_000, True)
    after.runs |= {"test.p.unique": after.runs["model.p.t"], "operation.p.hook": after.runs["model.p.t"]}
    compared = compare(_measured(10_000, 10_000), after)
    # No model costs more than it saves.
    assert (compared.only_after, compared.costly) == ((), ())


def test_total_requires_complete_invocations_and_does_not_include_queries_of_models() -> None:
    plain, after = _measured(10_000, 10_000), _measured(15_000, 9_000, True)
    for found in (plain, after):
        for node in ("model.p.t", "model.p.r"):
            found.runs[node]["app", "show"] = Run(0, 1, writes=False)
    compared = compare(plain, after)
    assert compared.total and len(compared.total.differences["seconds"].after) == 4
    assert compared.costly[0].cost_seconds == 5
    after.runs["model.p.r"]["app", "3"].failed = True
    total = compare(plain, after).total
    assert total and len(total.differences["seconds"].after) == 3


def test_report_shows_changes_and_omits_measures_that_are_zero_everywhere() -> None:
    compared = compare(_measured(10_000, 8_000), _measured(20_000, 4_000, True))
    titles, reader, table, total = rows(compared)
    assert titles == ["model", "runs", "seconds", "task seconds", "time verdict"]
    assert reader == ["r", "4 -> 4", "8.0 -> 4.0", "8.0 -> 4.0", "gained 50%"]
    assert table[-1] == "lost 100%" and total[2] == "18.0 -> 24.0"
    text = written(write_text, compared)
    assert "Each build of t costs 10.0 more task seconds, and saves its readers 4.0." in text
    assert "Set materialized='table' in this model." in text


def test_report_shows_the_verdict_on_shuffles_beside_the_verdict_on_time() -> None:
    before, after = _measured(10_000, 8_000), _measured(10_000, 8_000, True)
    for found, shuffled in ((before, 2_600_000), (after, 900)):
        for run in found.runs["model.p.r"].values():
            run.work.shuffle_bytes = shuffled
    titles, reader, table, _ = rows(compare(before, after))
    assert titles[-2:] == ["time verdict", "shuffle verdict"]
    assert reader[-2:] == ["no difference", "gained 99.9%"] and table[-2:] == ["no difference", "no difference"]
    page = written(write_html, compare(before, after))
    assert '<td class="no">no difference</td><td class="gained">gained 99.9%</td></tr>' in page
    text = written(write_text, compare(before, after))
    assert text.startswith("Medians of all successful runs, before -> after:\n\nmodel ")


def test_report_command_writes_every_format(tmp_path: Path) -> None:
    for form in ("text", "json", "html"):
        _report(CASE, CASE, "--format", form, "--output", str(tmp_path / form))
    assert "no difference" in (tmp_path / "text").read_text() and "<svg" in (tmp_path / "html").read_text()
    data = json.loads((tmp_path / "json").read_text())
    assert [model["shuffle_bytes"]["verdict"] for model in data["models"]] == ["no difference"] * 3


def test_report_to_a_closed_pipe_ends_without_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = mock.Mock(write=mock.Mock(side_effect=BrokenPipeError(errno.EPIPE, "Broken pipe")))
    monkeypatch.setattr(options, "standard_output", lambda _: closed)
    assert _report(CASE, CASE, "--format", "html", code=1) == ""


def test_long_names_and_verdicts_stay_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a_" + "very_" * 8 + "long_name_of_a_model"
    before, after = _measured(10_000, 8_000), _measured(10_000, 8_000, True)
    for found in (before, after):
        found.runs[f"model.p.{name}"] = found.runs.pop("model.p.r")
        for run in found.runs["model.p.t"].values():
            run.work = Work(123 << 20, 45 << 20, 1e6, 900)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    for width in ("80", "200"):
        monkeypatch.setenv("COLUMNS", width)
        shown = re.sub(r"\x1b\[[0-9;]*m", "", written(write_text, compare(before, after)))
        assert shown.count("no difference") == 6 and name in shown
        assert max(map(len, shown.splitlines())) <= int(width)
    page = written(write_html, compare(before, after))
    place = re.search(rf'<text x="(\d+)" y="\d+" text-anchor="end">{name}<', page)
    assert place and int(place[1]) >= 7 * len(name)


def test_time_of_writing_stages_has_no_verdict() -> None:
    """Without the shuffle, Spark reads and joins in the stage that writes, but the task time decreases."""
    before, after = _measured(10_000, 8_000), _measured(10_000, 6_000, True)
    for found, write_ms in ((before, 100), (after, 1600)):
        for runs in found.runs.values():
            for run in runs.values():
                run.work.write_ms = write_ms
    compared = compare(before, after)
    assert {node.differences["write_seconds"].verdict for node in compared.nodes} == {None} and compared.costly == ()
    shown = " ".join(written(write_text, compared).split())
    assert "write seconds" in shown and "0.1 -> 1.6" in shown and "lost" not in shown.split("`write seconds`")[0]
    note = "is the run time of the tasks in the stages that write files. It includes the reading and joining"
    assert note in shown and note in written(write_html, compared)
    data = json.loads(written(write_json, compared))
    assert {model["write_seconds"]["verdict"] for model in data["models"]} == {None}
    assert "more than 5% and by more than 0.1 s or 1 KiB" in data["rule"]
