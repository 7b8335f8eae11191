"""Tests of `table show`, `table verify` and `table seal` on real tables."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest
from bucketed_tables import no_extension, put
from partition_specs import put_parameters
from spec_evolution import DB, SpecEvolution, evolving_tables, sealed  # noqa: F401

from conftest import all_long_but

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast")


def test_show_groups_specs_into_ranges(tables: SpecEvolution) -> None:
    tables.evolved("shown", {"a": 4, "b": 4, "c": 8})
    lines = [" ".join(line.split()) for line in tables.said("show", "shown").splitlines()]
    assert f"{DB}.shown: 8 buckets by (k), sorted by (k), hash hive, 3 partitions" in lines
    assert "ds=a .. ds=b 2 4 buckets by (k), sorted by (k), hash hive" in lines
    assert "ds=c 1 8 buckets by (k), sorted by (k), hash hive" in lines
    assert "Read as bucketed, all partitions together: as 4 buckets by (k)" in lines
    put_parameters(tables, "shown", "ds=b", {"bucketing.hash": None})
    (shown,) = tables.report("show", "shown", code=1)["tables"]
    data = shown["seals"]
    assert [(read["first"], read["last"], buckets(read), read["why"]) for read in data["readable"]] == [
        ("ds=a", "ds=a", 4, None),
        ("ds=b", "ds=b", None, "partition ds=b is seal-unreadable"),
        ("ds=c", "ds=c", 8, None),
    ]
    found = [(found["status"], found["files"], str(found["problem"])[:14]) for found in data["ranges"]]
    assert found == [("sealed", 4, "None"), ("seal-unreadable", 4, "bucketing.hash"), ("sealed", 8, "None")]
    assert (buckets(shown), buckets(data["all_partitions"])) == (8, None)


def buckets(read: Any) -> int | None:
    """Return the number of buckets in the spec of a table or of a read."""
    return read["spec"] and int(read["spec"]["num_buckets"])


# Compared with 4 buckets: a multiple, a number with the common factor 2, and a coprime number.
@pytest.mark.parametrize("second", all_long_but((8, 5), (8, 6, 5)))
def test_show_predicts_the_planners_scan(tables: SpecEvolution, second: int) -> None:
    tables.evolved("planned", {"a": 4, "b": second})
    together = buckets(tables.report("show", "planned")["tables"][0]["seals"]["all_partitions"])
    expected = f"Bucketed: true ({together} Hive buckets" if together else "Bucketed: false"
    assert expected in tables.plan("select k, count(*) from planned group by k")


HARM: dict[str, Callable[[SpecEvolution], object]] = {
    # Another engine may drop a seal's key; copied files have later times.
    "seal-unreadable": lambda tables: put_parameters(tables, "broken", "ds=a", {"bucketing.hash": None}),
    "seal-stale": lambda tables: [*map(os.utime, tables.locations("broken")["ds=a"].glob("0*"))],
    "files-missing": lambda tables: min(tables.locations("broken")["ds=a"].glob("0*")).unlink(),
}


@pytest.mark.parametrize("status", all_long_but("files-missing", HARM))
def test_stale_seal_is_found_and_repaired(tables: SpecEvolution, status: str) -> None:
    tables.evolved("broken", {"a": 4, "b": 8})
    HARM[status](tables)
    before = tables.record("broken")
    assert before["ds=a"][0] == status
    kind = "with missing files" if status == "files-missing" else "without a valid seal"
    assert f"1 partition {kind}, such as ds=a [{status}]" in tables.said("verify", "broken", code=1)
    # The same state is wrong for all commands.
    (shown,) = tables.report("show", "broken", code=1)["tables"]
    assert shown["state"] == "wrong" and f"1 partition {kind}, such as ds=a [{status}]" in shown["findings"][-1]
    for dry in (("verify", "broken", "--deep"), ("seal", "broken", "--dry-run")):
        found = tables.said(*dry, code=dry[0] == "verify")
        assert "ds=a: sealable, 4 buckets by (k), sorted by (k), hash hive" in found
        number = 3 if status == "files-missing" else 4
        assert f"1 sealable, 1 unchanged; the command read the bucket and sort columns of {number} files" in found
    tables.said("seal", "broken", "--where", "ds = 'b'")
    assert tables.record("broken") == before
    tables.said("seal", "broken")
    assert tables.record("broken") == sealed(a=4, b=8)
    assert tables.said("verify", "broken", "--deep").startswith(f"{DB}.broken: ok\n")
    again = [(of["name"], of["status"], of["files_read"]) for of in tables.report("seal", "broken")["partitions"]]
    assert again == [("ds=a", "unchanged", 0), ("ds=b", "unchanged", 0)]


def test_command_names_files_without_valid_bucket_ids(tables: SpecEvolution) -> None:
    rows = tables.evolved("loose", {"a": 4, "b": 4})
    first, second = sorted(tables.locations("loose")["ds=a"].glob("0*"))[:2]
    data = first.read_bytes()
    put(first, second.read_bytes())
    put(second, data)
    for command in (("verify", "--deep"), ("seal", "--dry-run"), ("seal",)):
        found = tables.said(command[0], "loose", *command[1:], code=1)
        assert "1 refused, 1 unchanged" in found
        assert re.search(r"ds=a: found a row of bucket [01] in a file of bucket [01]: 0000[01]_", found)
    refused = tables.report("seal", "loose", code=1)["partitions"][0]
    assert refused["status"] == "refused" and "a row of bucket" in refused["problem"]
    assert tables.record("loose")["ds=b"] == ("sealed", 4, 1)
    assert tables.sums("loose") == rows


@pytest.mark.long
@pytest.mark.parametrize("numbers", [(8, 4), (4, 8)], ids=["fewer", "more"])
def test_files_copied_from_another_partition_are_sealed_by_their_content(
    tables: SpecEvolution, numbers: tuple[int, int]
) -> None:
    tables.evolved("stale", {"a": numbers[0], "b": numbers[1]})
    files = tables.locations("stale")
    for path in files["ds=a"].glob("*"):
        path.unlink()
    for path in files["ds=b"].glob("0*"):
        (files["ds=a"] / path.name).write_bytes(path.read_bytes())
    assert tables.record("stale")["ds=a"][0] == "seal-stale"
    tables.said("seal", "stale")
    assert tables.record("stale") == sealed(a=numbers[1], b=numbers[1])


def test_unpartitioned_table_is_sealed(tables: SpecEvolution) -> None:
    tables.create("whole (k int) clustered by (k) sorted by (k) into 4 buckets stored as parquet")
    tables.sql("stock:insert into whole select cast(id as int) from range(40)")
    query = "select k, count(*) from whole group by k"
    assert "[not-sealed]" in tables.plan(query)
    assert f"{DB}.whole: sealed, 4 buckets by (k), sorted by (k), hash hive" in tables.said("seal", "whole")
    assert "Bucketed: true (4 Hive buckets" in tables.plan(query)


# Spark reads such a table as ORC, and other engines read it as Parquet.
OF_TWO_FORMATS = """row format serde 'org.apache.hadoop.hive.ql.io.orc.OrcSerde'
    stored as inputformat 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat'
    outputformat 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat'"""
OF_PARTITIONS = "partition columns only, which are ds"
REFUSED = [
    ("nowhere", ("show", f"{DB}.nowhere"), f"Table `{DB}.nowhere` does not exist"),
    ("view", ("show", f"{DB}.a_view"), "is a view"),
    ("unpartitioned", ("rewrite", f"{DB}.one"), "has no partitions"),
    ("spark layout", ("rewrite", f"{DB}.spark"), "4 buckets in the Spark layout"),
    ("nothing to seal", ("seal", f"{DB}.nowhere"), f"Table `{DB}.nowhere` does not exist"),
    ("seal plain", ("seal", f"{DB}.plain"), "found:    a table without buckets"),
    ("seal other column", ("verify", f"{DB}.refused", "--deep", "--where", "k = 1"), "partition columns ds"),
    ("plain", ("rewrite", f"{DB}.plain"), "on_bucket_change='evolve'"),
    ("name", ("show", "a.b.c"), "is not a table name"),
    ("other column", ("rewrite", f"{DB}.refused", "--where", "k = 1"), OF_PARTITIONS),
    ("column of the query", ("rewrite", f"{DB}.refused", "--where", "place = 0"), OF_PARTITIONS),
    ("no predicate", ("rewrite", f"{DB}.refused", "--where", "ds ="), OF_PARTITIONS),
    ("no condition", ("rewrite", f"{DB}.refused", "--where", "ds"), OF_PARTITIONS),
    ("format", ("show", f"{DB}.texts"), "TextInputFormat"),
    ("formats that differ", ("show", f"{DB}.mixed"), "found:    MapredParquetInputFormat"),
    (
        "version",
        ("rewrite", f"{DB}.version_3"),
        "found:    the table property 'bucketing_version' = '3'\n  expected: exactly '1'",
    ),
    ("lenient", ("rewrite", f"{DB}.lenient"), "SET SERDEPROPERTIES ('IgnoreCorruptFiles' = 'false')"),
    ("no target", ("rewrite", f"{DB}.unclustered"), "has no buckets now"),
]


@pytest.fixture(scope="module")
def refused(tables: SpecEvolution) -> None:
    """Create a table of each kind that the commands refuse."""
    for statement in (
        "create or replace view a_view as select 1 as a",
        "create table one (k int) clustered by (k) into 4 buckets stored as parquet",
        "create table spark (k int, ds string) using parquet partitioned by (ds) clustered by (k) into 4 buckets",
        "create table plain (k int) partitioned by (ds string) stored as parquet",
    ):
        tables.sql(statement)
    for name in ("refused", "unclustered", "lenient"):
        tables.new(name)
    with tables.settings({"spark.bucketing.enabled": "true"}):
        tables.write("unclustered", "a")
    tables.sql("alter table unclustered not clustered")
    tables.sql("alter table lenient set serdeproperties ('IgnoreCorruptFiles' = 'TRUE')")
    tables.new("texts", stored="stored as textfile")
    tables.new("mixed", stored=OF_TWO_FORMATS)
    tables.new("version_3", stored="stored as parquet tblproperties ('bucketing_version' = '3')")


@pytest.mark.parametrize(("arguments", "said"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
@pytest.mark.some(8)
def test_refused_table_gets_an_error(
    tables: SpecEvolution, refused: None, arguments: tuple[str, ...], said: str
) -> None:
    result = tables.command(*arguments)
    assert result.exit_code == 2
    assert said in result.output, result.output
    assert "bug in spark-bucketing" not in result.output and "Traceback" not in result.output


def test_session_without_the_extension_gets_instructions(tables: SpecEvolution, refused: None) -> None:
    with no_extension(tables.spark):
        for name in ("seal", "rewrite"):
            assert "spark-bucketing extension conf --format profiles" in tables.said(name, "refused", code=2)
        assert "seals are unknown" in tables.said("verify", "refused", code=2)


def test_settings_that_hide_rows_are_restored(tables: SpecEvolution) -> None:
    tables.evolved("settled", {"a": 4, "b": 8})
    loose = {"spark.sql.files.ignoreMissingFiles": "true", "spark.bucketing.write.distribute": "false"}
    with tables.settings(loose):
        tables.said("rewrite", "settled")
        assert {key: tables.spark.conf.get(key) for key in loose} == loose
    assert tables.record("settled") == sealed(a=8, b=8)
