"""Tests of the comparison of runs before and after bucketing."""

from __future__ import annotations

import errno
import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest
from click.testing import CliRunner
from report_pages import written

from conftest import REPOSITORY
from spark_bucketing.cli import main, options
from spark_bucketing.event_log.comparison import Difference, compare
from spark_bucketing.event_log.measured import AD_HOC, Measured, Run, Work, read_measured
from spark_bucketing.event_log.report import rows, write_html, write_json, write_text

CASE = REPOSITORY / "tests" / "cases" / "event_logs" / "tpch_plain.gz"
SHOP = ("customers", "orders", "revenue")


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ((10, 11, 12, 13), (5, 6, 7, 8), "gained"),
        ((5, 6, 7, 8), (10, 11, 12, 13), "lost"),
        ((5, 9, 7, 12), (6, 8, 10, 7), "no difference"),
        ((10, 11, 12), (5, 6, 7), "too few runs"),
        ((1, 1, 1, 1), (1, 1, 1, 1), "no difference"),
        # The runs must not overlap.
        ((10, 11, 12, 13), (5, 6, 7, 10), "no difference"),
        ((10, 11, 12, 13), (5, 6, 7, 9.9), "gained"),
        # Of at least ten runs, the lowest and the highest tenth do not count.
        (range(20, 30), (*range(10, 19), 99), "gained"),
        ((*range(10, 19), 99), range(20, 30), "lost"),
        (range(20, 30), (*range(11, 19), 50, 99), "no difference"),
    ],
)
def test_verdict_requires_a_difference_beyond_noise(
    before: Sequence[float], after: Sequence[float], verdict: str
) -> None:
    assert Difference(tuple(before), tuple(after)).verdict == verdict


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
    both = read_measured([str(tmp_path)])
    assert both.nodes() == sorted(f"{kind}.shop.{name}" for kind in ("model", "table") for name in SHOP)
    found = compare(both, both)
    # Writes without the comment are not runs, because the models have runs with the comment.
    runs = {node.node: len(node.differences["seconds"].before) for node in found.nodes}
    assert runs == {f"model.shop.{name}": 2 for name in SHOP} and found.only_before == ()


def test_logs_of_bucketed_runs_show_what_the_buckets_save() -> None:
    before, after = (read_measured([str(CASE.with_name(f"spark_4.3_{name}.gz"))]) for name in ("plain", "bucketed"))
    nodes = {one.node: one.differences["shuffle_bytes"].verdict for one in compare(before, after).nodes}
    assert nodes == {"model.shop.revenue": "gained", "model.shop.orders": "lost", "model.shop.customers": "lost"}


def test_tests_and_hooks_are_not_compared() -> None:
    after = _measured(15_000, 4_000, True)
    after.runs |= {"test.p.unique": after.runs["model.p.t"], "operation.p.hook": after.runs["model.p.t"]}
    compared = compare(_measured(10_000, 10_000), after)
    assert compared.only_after == ()
    # No model costs more than it saves.
    assert compared.costly == ()


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
        command = ["report", "--before", str(CASE), "--after", str(CASE), "--format", form]
        done = CliRunner().invoke(main, [*command, "--output", str(tmp_path / form)])
        assert done.exit_code == 0, done.output
    assert "no difference" in (tmp_path / "text").read_text() and "<svg" in (tmp_path / "html").read_text()
    data = json.loads((tmp_path / "json").read_text())
    assert [model["shuffle_bytes"]["verdict"] for model in data["models"]] == ["no difference"] * 3


def test_report_to_a_closed_pipe_ends_without_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = mock.Mock(write=mock.Mock(side_effect=BrokenPipeError(errno.EPIPE, "Broken pipe")))
    monkeypatch.setattr(options, "standard_output", lambda _: closed)
    done = CliRunner().invoke(main, ["report", "--before", str(CASE), "--after", str(CASE), "--format", "html"])
    assert (done.exit_code, done.output) == (1, "")


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


@pytest.mark.parametrize(
    ("before", "after", "least", "verdict"),
    [
        (100.0, 94.0, 0.1, "gained"),
        (100.0, 106.0, 0.1, "lost"),
        # At most 5% of the median
        (100.0, 95.5, 0.1, "no difference"),
        (100.0, 104.5, 0.1, "no difference"),
        # At most as large as the least difference that the report can show
        (0.3, 0.2, 0.1, "no difference"),
        (0.3, 0.1, 0.1, "gained"),
        (0.0, 0.05, 0.1, "no difference"),
        (0.0, 900.0, 1024, "no difference"),
        (0.0, 1100.0, 1024, "lost"),
        (1.0, 9.0, None, None),
    ],
)
def test_verdict_requires_a_noticeable_difference(
    before: float, after: float, least: float | None, verdict: str | None
) -> None:
    first, second = (tuple(value + number / 1e6 for number in range(8)) for value in (before, after))
    assert Difference(first, second, least).verdict == verdict


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
