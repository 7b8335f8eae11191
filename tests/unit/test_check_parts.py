"""Parts of the check that need no Spark: lines, shadows' statements, facts of tables, settings, steps."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_bucketing.check.facts import described, files_per_bucket
from spark_bucketing.check.layout_config import ConfiguredLayout, configured_layout
from spark_bucketing.check.offline import parallelism, planner_settings
from spark_bucketing.check.run import Subject
from spark_bucketing.check.scans import TableFacts
from spark_bucketing.check.session_settings import read_settings
from spark_bucketing.check.subjects import file_subject, model_subject, offline_tasks, selectable
from spark_bucketing.errors import ProjectError
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.plan.whatif import HypotheticalTable
from spark_bucketing.plan.whatif.hypothetical import UNKNOWN_SIZE
from spark_bucketing.project.manifest import Manifest, Node, relation_parts, table_name
from spark_bucketing.project.seeds import seed_columns
from spark_bucketing.spec import BucketSpec

HIVE = {"clustered_by": ["K"], "buckets": 8, "partition_by": "ds"}


@pytest.mark.parametrize(
    ("config", "materialized", "layout"),
    [
        (HIVE, "bucketed_table", ConfiguredLayout(BucketSpec(8, ("K",), ("K",), "hive"), ("ds",))),
        (HIVE | {"sorted_by": []}, "bucketed_table", ConfiguredLayout(BucketSpec(8, ("K",), (), "hive"), ("ds",))),
        (
            HIVE | {"bucket_hash": "SPARK"},
            "bucketed_incremental",
            ConfiguredLayout(BucketSpec(8, ("K",), ("K",), "spark"), ("ds",)),
        ),
        (HIVE, "table", ConfiguredLayout(BucketSpec(8, ("K",), (), "spark"), ("ds",))),
        (HIVE | {"file_format": "delta"}, "incremental", ConfiguredLayout(None, ("ds",))),
        (HIVE | {"bucket_hash": "hive"}, "source", ConfiguredLayout(BucketSpec(8, ("K",), (), "hive"), ("ds",))),
        ({"clustered_by": "k"}, "table", ConfiguredLayout()),
        ({"file_format": "orc"}, "table", ConfiguredLayout(None, (), "orc")),
    ],
)
def test_a_shadow_is_stored_as_the_model_s_config_says(
    config: dict[str, Any], materialized: str, layout: ConfiguredLayout
) -> None:
    assert configured_layout(config, materialized, "m") == layout


def test_a_table_of_unknown_size_is_large_and_none_is_without_size() -> None:
    assert HypotheticalTable("s.t", {}).size == UNKNOWN_SIZE
    assert HypotheticalTable("s.t", {}, size_bytes=0).size == 1


def test_tables_have_a_name_of_their_own_for_all_that_decides_over_plans() -> None:
    table = HypotheticalTable("s.t", {"k": "int"}, BucketSpec(8, ("k",), ("k",), "hive"))
    others = (
        replace(table, name="s.u"), replace(table, columns={"k": "bigint"}), replace(table, size_bytes=1),
        replace(table, spec=None), replace(table, files_per_bucket=2), replace(table, partition_columns=("k",)),
    )  # fmt: skip
    assert len({table.content, *(other.content for other in others)}) == 1 + len(others)
    assert table.retyped({"k": "bigint"}) == others[1]


DESCRIPTION = [
    ("k", "bigint", None),
    ("# col_name", "string", "a column of this name"),
    ("ds", "string", None),
    ("# Partition Information", "", ""),
    ("# col_name", "data_type", "comment"),
    ("ds", "string", None),
    ("", "", ""),
    ("# Detailed Table Information", "", ""),
    ("Provider", "hive", ""),
    ("Num Buckets", "8", ""),
    ("Bucket Columns", "[`k`]", ""),
    ("Sort Columns", "[`k`]", ""),
    ("Statistics", "123456 bytes, 10 rows", ""),
    ("", "", ""),
    ("# View Information", "", ""),
    ("Provider", "other", ""),
]


def test_a_description_is_read_whatever_columns_are_called() -> None:
    assert described("s.t", DESCRIPTION) == TableFacts(
        "s.t",
        {"k": "bigint", "# col_name": "string", "ds": "string"},
        BucketSpec(8, ("k",), ("k",), "hive"),
        ("ds",),
        123456,
    )
    assert described("s.t", [("a", "int", None)]) == TableFacts("s.t", {"a": "int"})


@pytest.mark.parametrize(
    ("names", "files"),
    [
        ((), 1),
        (("ds=1/00000_0_a", "ds=2/00000_0_a", "ds=2/00001_0_a"), 1),
        (("ds=1/00000_0_a", "ds=1/00000_0_b"), 2),
        (("ds=1/part-0", "ds=1/00000_0_a", "ds=1/00000_0_b"), 1),
    ],
)
def test_files_of_a_bucket_are_counted_in_each_partition(names: tuple[str, ...], files: int) -> None:
    assert files_per_bucket([f"file:/t/{name}" for name in names], described("s.t", DESCRIPTION)) == files


def test_without_partitions_all_folders_are_one() -> None:
    facts = TableFacts("t", {}, BucketSpec(8, ("k",), (), "hive"))
    assert files_per_bucket(["file:/t/a/00000_0_a", "file:/t/b/00000_0_a"], facts) == 2


def test_offline_takes_a_target_s_planner_settings_and_leaves_its_warehouse() -> None:
    settings = planner_settings(
        {
            "spark.sql.shuffle.partitions": "7",
            "spark.bucketing.enabled": "true",
            "spark.sql.warehouse.dir": "/w",
            "spark.sql.catalog.prod": "x.Y",
            "spark.master": "yarn",
            "spark.hadoop.hive.metastore.uris": "thrift://m",
            "spark.sql.optimizer.excludedRules": "a.B",
        }
    )
    assert settings.pop("spark.sql.optimizer.excludedRules").startswith(
        "a.B,org.apache.spark.sql.execution.datasources.Prune"
    )
    assert settings == {"spark.sql.shuffle.partitions": "7", "spark.bucketing.enabled": "true"}


def test_offline_has_the_cores_that_the_target_says() -> None:
    def cores(**settings: str) -> str | None:
        return parallelism({f"spark.{key.replace('_', '.')}": value for key, value in settings.items()}).get(
            "spark.default.parallelism"
        )

    assert cores(master="local[7]") == cores(master="local[7, 3]") == "7"
    assert cores(master="local") == "1" and cores(master="local[*]") == str(os.cpu_count())
    assert cores(master="local[7]", default_parallelism="200") == "200"
    assert cores(master="yarn") is None and cores() is None


def node(
    name: str, *parents: str, kind: str = "model", materialized: str = "table", sql: str | None = "select 1"
) -> Node:
    return Node(
        f"{kind}.p.{name}", name, kind, f"models/{name}.sql", f"s.{name}", materialized, sql, depends_on=parents
    )


MANIFEST = Manifest(
    {
        one.unique_id: one
        for one in (
            node("z", "model.p.y"),
            node("y", "model.p.x", "source.p.a"),
            node("x", "source.p.a", materialized="ephemeral"),
            node("a", kind="source", materialized="source", sql=None),
            node("lonely"),
            node("t", "model.p.z", kind="test"),
        )
    }
)


def test_parents_come_before_what_reads_them() -> None:
    order = MANIFEST.order
    assert len(order) == 6
    assert all(order.index(parent) < order.index(name) for name in order for parent in MANIFEST.nodes[name].depends_on)


def test_a_chain_longer_than_the_stack_is_ordered() -> None:
    nodes = {f"m{i}": Node(f"m{i}", f"m{i}", "model", "", depends_on=(f"m{i + 1}",)) for i in range(5000)}
    assert Manifest(nodes).order[0] == "m4999"


def test_models_with_a_query_of_their_own_are_checked() -> None:
    assert selectable(MANIFEST) == tuple(
        name for name in MANIFEST.order if name in ("model.p.lonely", "model.p.y", "model.p.z")
    )


def test_offline_only_what_is_read_has_a_shadow(tmp_path: Path) -> None:
    checked = [model_subject(MANIFEST.nodes[f"model.p.{name}"], tmp_path) for name in "zy"]
    tasks = [(type(task), task.name) for task in offline_tasks(checked, MANIFEST)]
    assert tasks == [(Node, "a"), (Node, "x"), (Subject, "y"), (Node, "y"), (Subject, "z")]
    *shadows, file = offline_tasks([Subject("q.sql", "q.sql", "select 1")], MANIFEST)
    assert {task.name for task in shadows} == {"a", "x", "y", "z", "lonely"} and isinstance(file, Subject)


def test_a_file_is_what_dbt_compiled_it_to_or_its_own_text_but_for_jinja(tmp_path: Path) -> None:
    project, file = tmp_path / "project", tmp_path / "q.sql"
    subject = file_subject(project / "models" / "y.sql", project, MANIFEST, {})
    assert (subject.unique_id, subject.sql) == ("model.p.y", "select 1")
    broken = file_subject(project / "models" / "y.sql", project, MANIFEST, {"model.p.y": "no such luck"})
    assert broken.error == "no such luck"
    # With or without a byte order mark.
    for start in (b"", b"\xef\xbb\xbf"):
        file.write_bytes(start + b"select 1;\n")
        assert file_subject(file, project, MANIFEST, {}).sql == "select 1"
    file.write_text("select {{ x }}")
    with pytest.raises(ProjectError, match="has Jinja"):
        file_subject(file, tmp_path, Manifest({}), {})


def test_a_python_model_says_that_it_has_no_sql(tmp_path: Path) -> None:
    python = Node("model.p.py", "py", "model", "models/py.py", "s.py", sql="def model(): ...", language="python")
    subject = model_subject(python, tmp_path)
    assert subject.sql is None and "Python model" in str(subject.error)


def test_a_seed_s_columns_are_those_that_dbt_would_load(tmp_path: Path) -> None:
    file = tmp_path / "s.csv"
    file.write_text(
        "k;price;day;at;name;code\n1;1.5;2024-01-01;2024-01-01 10:00:00;x;007\n2;2;2024-01-02;2024-01-02 11:00:00;y;008\n"
    )
    assert seed_columns(file, {"delimiter": ";", "column_types": {"code": "string"}}) == {
        "k": "bigint", "price": "double", "day": "date", "at": "timestamp", "name": "string", "code": "string",
    }  # fmt: skip
    with pytest.raises(ProjectError, match="cannot be read"):
        seed_columns(tmp_path / "none.csv", {})


class Answers:
    """A session with settings and functions; what a statement means is for a real Spark to say."""

    def __init__(self, functions: list[tuple[Any, ...]], **settings: str) -> None:
        self.functions, self.settings = functions, {"spark.sql.extensions": "<undefined>", **settings}

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        name = sql.partition("set ")[2]
        return [(name, self.settings.get(name, "x"))] if name else self.functions


@pytest.mark.parametrize(
    ("functions", "named", "read"),
    [
        ([("hive_bucket",)], f"io.X,{EXTENSION_CLASS}", f"io.X,{EXTENSION_CLASS}"),
        ([], f"io.X,{EXTENSION_CLASS}", "io.X"),
        ([], "io.X", "io.X"),
        ([], "<undefined>", ""),
    ],
)
def test_an_extension_that_the_session_could_not_load_is_not_believed(
    functions: list[tuple[Any, ...]], named: str, read: str
) -> None:
    settings = read_settings(Answers(functions, **{"spark.sql.extensions": named}))  # type: ignore[arg-type]
    assert settings.get("spark.sql.extensions") == read and settings.loaded == (EXTENSION_CLASS in read)
    assert settings.get("spark.sql.shuffle.partitions") == "x"


@pytest.mark.parametrize(
    ("relation", "parts"),
    [
        ("s.t", ("s", "t")),
        ("`s`.`a.b``c`", ("s", "a.b`c")),
        ("c.s.t", ("c", "s", "t")),
        ("csv.`/a/b` with (header = true)", None),
        ("", None),
    ],
)
def test_names_are_taken_apart(relation: str, parts: tuple[str, ...] | None) -> None:
    assert relation_parts(relation) == parts


def test_tables_are_called_as_spark_prints_them() -> None:
    assert table_name("spark_catalog.`S`.T") == "s.t"
    assert table_name("ice.`S`.T") == "ice.s.t"
