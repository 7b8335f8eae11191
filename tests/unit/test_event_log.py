"""Tests of reading event logs, and of their costs in `advise` and `check`."""

from __future__ import annotations

import gzip
import struct
from functools import partial
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import lz4.block
import pytest
import zstandard
from click.testing import CliRunner

from spark_bucketing import hadoop
from spark_bucketing.advise.advice import Change
from spark_bucketing.advise.event_logs import measured_runs, ranked, unplanned_layouts, with_costs
from spark_bucketing.check.measured_costs import with_measured_costs
from spark_bucketing.check.results import Finding, ModelResult, OperatorResult, Report, Verdict
from spark_bucketing.cli import main
from spark_bucketing.cli.options import event_log
from spark_bucketing.errors import EventLogError
from spark_bucketing.event_log import files
from spark_bucketing.event_log.measured import read_measured
from spark_bucketing.event_log.plan_costs import Keys
from spark_bucketing.extension.settings import as_profile, event_log_settings
from spark_bucketing.spec import BucketSpec

CASE = Path(__file__).parents[1] / "cases" / "event_logs" / "tpch_plain.zstd"


def _plain() -> bytes:
    with CASE.open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file).read()


def _lz4(content: bytes, block: int = 1 << 16) -> bytes:
    found = b""
    for start in range(0, len(content), block):
        part = content[start : start + block]
        packed = lz4.block.compress(part, store_size=False)
        found += struct.pack("<8sBiii", b"LZ4Block", 0x26, len(packed), len(part), 0) + packed
    return found + struct.pack("<8sBiii", b"LZ4Block", 0x16, 0, 0, 0)


def test_runs_are_attributed_to_models_and_invocations() -> None:
    found = read_measured([str(CASE)])
    assert found.nodes() == ["model.tpch.orders", "model.tpch.q03", "model.tpch.q04"]
    assert all(len(found.runs_of(node)) == 5 for node in found.nodes())
    # The Spark UI shows these stage metrics.
    assert {run.work.shuffle_bytes for run in found.runs_of("model.tpch.q03")} == {5234440}
    assert found.counts.warnings == []
    assert found.writers == {f"tpch.{name}": f"model.tpch.{name}" for name in ("orders", "q03", "q04")}


def test_costs_belong_to_tables_and_keys() -> None:
    costs = read_measured([str(CASE)]).costs("model.tpch.q04")
    orders, lineitem = costs[Keys("tpch.orders", ("o_orderkey",))], costs[Keys("tpch.lineitem", ("l_orderkey",))]
    assert 0 < orders.shuffle_bytes < lineitem.shuffle_bytes
    assert lineitem.task_ms > 0


@pytest.mark.parametrize("packed", [bytes, gzip.compress, zstandard.ZstdCompressor().compress, _lz4])
def test_every_codec_is_decompressed(tmp_path: Path, packed) -> None:  # type: ignore[no-untyped-def]
    log = tmp_path / "app-1"
    log.write_bytes(packed(_plain()))
    found = read_measured([str(log)])
    assert found.number_of_runs == 15 and found.counts.warnings == []


@pytest.mark.parametrize("version", ["3.5", "4.1"])
def test_logs_of_other_spark_versions_are_read(version: str) -> None:
    found = read_measured([str(CASE.with_name(f"spark_{version}.zstd"))])
    names = ("customers", "orders", "revenue")
    assert [len(found.runs_of(f"model.shop.{name}")) for name in names] == [2, 2, 2]
    assert found.writers == {f"shop.{name}": f"model.shop.{name}" for name in names}
    revenue = found.costs("model.shop.revenue")
    assert {keys.table: keys.columns for keys in revenue} == dict.fromkeys(
        ("shop.customers", "shop.orders"), ("customer_id",)
    )
    # The costs of the two Exchanges equal the costs of the stages.
    total = sum(run.work.shuffle_bytes for run in found.runs_of("model.shop.revenue"))
    assert sum(cost.shuffle_bytes for cost in revenue.values()) == total > 0
    assert found.counts.warnings == []


def test_consecutive_zstd_frames_are_read(tmp_path: Path) -> None:
    content = _plain()
    log = tmp_path / "app-1.zstd"
    packer = zstandard.ZstdCompressor()
    log.write_bytes(packer.compress(content[:100_000]) + packer.compress(content[100_000:]))
    assert read_measured([str(log)]).number_of_runs == 15


@pytest.mark.parametrize("packed", [bytes, gzip.compress, zstandard.ZstdCompressor().compress, _lz4])
def test_truncated_logs_are_counted(tmp_path: Path, packed) -> None:  # type: ignore[no-untyped-def]
    content = packed(_plain())
    (tmp_path / "app-1.inprogress").write_bytes(content[: len(content) * 2 // 3])
    found = read_measured([str(tmp_path)])
    assert found.counts.truncated_files == 1
    assert "Read 1 file up to a damaged or missing end." in found.counts.warnings
    assert 0 < found.number_of_runs < 15


def test_broken_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    lines = _plain().splitlines(keepends=True)
    broken = [b"garbage\n", b'{"Event":"SparkListenerJobStart"\n', b'{"Event":"SparkListenerStageCompleted"}\n']
    (tmp_path / "app-1").write_bytes(b"".join(lines[:5] + broken + lines[5:]))
    found = read_measured([str(tmp_path)])
    assert found.counts.broken_lines == 3 and found.counts.warnings == ["Skipped 3 broken lines."]
    assert found.number_of_runs == 15


def test_runs_with_an_unfinished_statement_do_not_count(tmp_path: Path) -> None:
    lines = _plain().splitlines(keepends=True)
    ends = [number for number, line in enumerate(lines) if b"SparkListenerSQLExecutionEnd" in line[:90]]
    (tmp_path / "app-1").write_bytes(b"".join(lines[: ends[-1]]))
    found = read_measured([str(tmp_path)])
    assert found.counts.warnings == ["Ignored 1 statement without an end."]
    assert sorted(len(found.runs_of(node)) for node in found.nodes()) == [4, 5, 5]


def test_local_paths_do_not_depend_on_the_directory_of_the_project(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "my log"
    log.touch()
    monkeypatch.chdir(tmp_path)
    assert {event_log(given) for given in ("my log", str(log), f"file:{log}", log.as_uri())} == {str(log)}
    assert event_log("s3a://logs/") == "s3a://logs/"


def test_missing_log_is_an_error_before_spark_plans_queries(tmp_path: Path) -> None:
    for command in ("advise", "check"):
        done = CliRunner().invoke(main, [command, "--project-dir", str(tmp_path), "--event-log", "none"])
        assert done.exit_code == 2 and "The event log none does not exist." in done.output


def test_rolling_log_is_read_in_order(tmp_path: Path) -> None:
    lines = _plain().splitlines(keepends=True)
    folder = tmp_path / "eventlog_v2_local-1"
    folder.mkdir()
    (folder / "appstatus_local-1").write_bytes(b"")
    size = len(lines) // 11 + 1
    for number in range(11):
        (folder / f"events_{number + 1}_local-1").write_bytes(b"".join(lines[number * size : (number + 1) * size]))
    found = read_measured([str(tmp_path)])
    assert found.number_of_runs == 15 and found.counts.files == 11 and found.counts.unfinished == 0


def test_unsupported_codec_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "app-1.snappy").write_bytes(b"\x82SNAPPY\x00" + bytes(20))
    with pytest.raises(EventLogError, match="snappy"):
        read_measured([str(tmp_path)])


def test_missing_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EventLogError, match="does not exist"):
        read_measured([str(tmp_path / "none")])
    with pytest.raises(EventLogError, match="contains no event log"):
        read_measured([str(tmp_path)])


def test_advice_counts_ad_hoc_queries_and_measured_costs() -> None:
    found = read_measured([str(CASE)])
    models = set(found.nodes()) - {"model.tpch.q03"}
    layouts = unplanned_layouts(found, models)
    join = next(
        one for one in layouts if {side.table for side in one.sides} == {"tpch.orders", "tpch.lineitem"} or one.is_join
    )
    assert all(one.query == "model.tpch.q03" for one in layouts) and join.kind == "join"
    assert measured_runs(found, {})["model.tpch.q04"] == 5
    first = ranked(found)[0]
    assert (first.table, first.columns) == ("tpch.lineitem", ("l_orderkey",))
    spec = BucketSpec(4, ("l_orderkey",), ("l_orderkey",), "hive")
    change = Change("model.tpch.lineitem", "lineitem", "tpch.lineitem", None, spec, {}, 1, 1, "", 1.0, 1.0)
    (measured,) = with_costs([change], ranked(found))
    assert measured.measured == first.cost


def test_findings_state_their_measured_costs() -> None:
    operator = OperatorResult(
        "join",
        "tpch.orders.o_orderkey = tpch.lineitem.l_orderkey",
        Verdict.SHUFFLED,
        findings=(
            Finding("side-not-bucketed", "It shuffles.", ("tpch.lineitem",)),
            Finding("other", "No.", ("tpch.none",)),
        ),
    )
    names = {"q04": "model.tpch.q04", "view": "model.tpch.view"}
    report = Report(tuple(ModelResult(name, "", (operator,), unique_id=key) for name, key in names.items()))
    q04, view = with_measured_costs(report, read_measured([str(CASE)]), {}).models
    messages = [finding.message for finding in q04.operators[0].findings]
    assert messages[0].startswith("It shuffles.\nMeasured per run, in 5 runs: ") and "MiB shuffled" in messages[0]
    assert messages[1] == "No." and view.operators == (operator,)


def test_extension_conf_prints_the_settings_of_event_logs() -> None:
    assert as_profile(event_log_settings("file:///logs")).splitlines()[1:] == [
        '  spark.eventLog.enabled: "true"',
        '  spark.eventLog.dir: "file:///logs"',
        '  spark.eventLog.compress: "true"',
    ]


@pytest.mark.parametrize("packed", [bytes, zstandard.ZstdCompressor().compress])
def test_streams_of_other_file_systems_are_read(monkeypatch: pytest.MonkeyPatch, packed) -> None:  # type: ignore[no-untyped-def]
    class JavaStream(BytesIO):
        """A stream with the method of Java's InputStream."""

        def readNBytes(self, number: int) -> bytearray:  # noqa: N802
            return bytearray(self.read(number))

    content = packed(_plain())
    path = SimpleNamespace(toString=lambda: "s3a://logs/app-1")
    system = SimpleNamespace(open=lambda _: JavaStream(content))
    opened = partial(hadoop._open_hadoop, system, path)
    monkeypatch.setattr(files, "hadoop_files", lambda _: [("s3a://logs/app-1", len(content), opened)])
    found = read_measured(["s3a://logs"])
    assert found.number_of_runs == 15 and found.counts.size_bytes == len(content)
