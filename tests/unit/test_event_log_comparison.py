"""Tests of the comparison of runs before and after bucketing."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
import zstandard
from click.testing import CliRunner

from conftest import REPOSITORY
from spark_bucketing.cli import main
from spark_bucketing.event_log.comparison import Difference, chance_of_noise, compare
from spark_bucketing.event_log.measured import Measured, Run, read_measured
from spark_bucketing.event_log.statements import Work
from spark_bucketing.report.event_log_data import rows, write_text

CASE = REPOSITORY / "tests" / "cases" / "event_logs" / "tpch_plain.zstd"
SHOP = ("customers", "orders", "revenue")


def test_verdict_requires_a_difference_beyond_noise() -> None:
    assert Difference((10, 11, 12, 13), (5, 6, 7, 8)).verdict == "gained"
    assert Difference((5, 6, 7, 8), (10, 11, 12, 13)).verdict == "lost"
    assert Difference((5, 9, 7, 12), (6, 8, 10, 7)).verdict == "no difference"
    assert Difference((10, 11, 12), (5, 6, 7)).verdict == "too few runs"
    assert Difference((1, 1, 1, 1), (1, 1, 1, 1)).verdict == "no difference"


def test_p_value_is_close_to_the_exact_test() -> None:
    # Exact p-value: 2 of the 70 orders of 4 and 4 runs are as extreme as this one.
    assert chance_of_noise((5, 6, 7, 8), (1, 2, 3, 4)) == pytest.approx(2 / 70, abs=0.003)


def _measured(table_ms: int, reader_ms: int, bucketed: bool) -> Measured:
    found = Measured(writers={"s.t": "model.p.t"}, bucketed={"s.t": {"model.p.r"}} if bucketed else {})
    for number in range(4):
        for node, time in (("model.p.t", table_ms), ("model.p.r", reader_ms)):
            run = Run(0, time + number, work=Work(task_ms=time + number))
            found.runs.setdefault(node, {})["app", str(number)] = run
    return found


def test_report_names_models_that_cost_more_than_they_save() -> None:
    plain = _measured(10_000, 10_000, bucketed=False)
    (costly,) = compare(plain, _measured(15_000, 9_000, bucketed=True)).costly
    assert (costly.node, costly.cost_seconds, costly.saved_seconds) == ("model.p.t", 5.0, 1.0)
    assert compare(plain, _measured(15_000, 4_000, bucketed=True)).costly == ()


def test_report_names_bucketed_models_without_readers() -> None:
    after = _measured(15_000, 9_000, bucketed=True)
    after.bucketed["s.t"].clear()
    (costly,) = compare(_measured(10_000, 10_000, bucketed=False), after).costly
    assert (costly.node, costly.saved_seconds) == ("model.p.t", 0)


def test_models_without_a_query_comment_are_identified_by_their_tables() -> None:
    before, after = _measured(10_000, 10_000, bucketed=False), _measured(15_000, 9_000, bucketed=True)
    before.runs["table.s.t"] = before.runs.pop("model.p.t")
    before.writers["s.t"] = "table.s.t"
    found = compare(before, after)
    assert [node.node for node in found.nodes] == ["model.p.r", "model.p.t"] and found.only_before == ()
    assert len(found.costly) == 1 and found.total is not None


def test_logs_with_and_without_a_query_comment_are_runs_of_the_same_models(tmp_path: Path) -> None:
    content = zstandard.ZstdDecompressor().stream_reader(CASE.with_name("spark_3.5.zstd").read_bytes()).read()
    (tmp_path / "app-2").write_bytes(content)
    (tmp_path / "app-1").write_bytes(content.replace(b"node_id", b"no").replace(b"local-1", b"local-0"))
    both = read_measured([str(tmp_path)])
    assert both.nodes() == sorted(f"{kind}.shop.{name}" for kind in ("model", "table") for name in SHOP)
    found = compare(both, both)
    # Without the comment, each application is one run.
    runs = {node.node: len(node.differences["seconds"].before) for node in found.nodes}
    assert runs == {f"model.shop.{name}": 3 for name in SHOP} and found.only_before == ()


def test_tests_and_hooks_are_not_compared() -> None:
    after = _measured(10_000, 10_000, bucketed=False)
    after.runs |= {"test.p.unique": after.runs["model.p.t"], "operation.p.hook": after.runs["model.p.t"]}
    assert compare(_measured(10_000, 10_000, bucketed=False), after).only_after == ()


def test_total_requires_complete_invocations() -> None:
    plain, after = _measured(10_000, 10_000, False), _measured(5_000, 10_000, True)
    after.runs["model.p.r"]["app", "3"].failed = True
    total = compare(plain, after).total
    assert total and len(total.differences["seconds"].after) == 3


def test_report_shows_changes_and_omits_measures_that_are_zero_everywhere() -> None:
    comparison = compare(_measured(10_000, 8_000, bucketed=False), _measured(20_000, 4_000, bucketed=True))
    titles, reader, table, total = rows(comparison)
    assert titles == ["model", "runs", "seconds", "task seconds", "verdict on time"]
    assert reader == ["r", "4 -> 4", "8.0 -> 4.0", "8.0 -> 4.0", "gained 50%"]
    assert table[-1] == "lost 100%" and total[2] == "18.0 -> 24.0"
    text = StringIO()
    write_text(comparison, text)
    assert "Each build of t costs 10.0 more task seconds, and saves its readers 4.0." in text.getvalue()
    assert "Set materialized='table' in this model." in text.getvalue()


def test_report_command_writes_every_format(tmp_path: Path) -> None:
    for form in ("text", "json", "html"):
        output = tmp_path / form
        command = ["report", "--before", str(CASE), "--after", str(CASE), "--format", form, "--output", str(output)]
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, done.output
    assert "no difference" in (tmp_path / "text").read_text()
    data = json.loads((tmp_path / "json").read_text())
    assert [model["shuffle_bytes"]["verdict"] for model in data["models"]] == ["no difference"] * 3
    page = (tmp_path / "html").read_text()
    assert "<svg" in page and "http" not in page
