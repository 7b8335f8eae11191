"""Tests of parts of the check without Spark: configs, stub tables, names in SQL, table facts and settings."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from spark_bucketing.checks import stub_tables
from spark_bucketing.checks.project import _folder_from, with_configured, with_graph
from spark_bucketing.checks.results import Finding, Fix, ModelResult, OperatorResult, Parent, Verdict
from spark_bucketing.checks.sql_text import one_statement, renamed
from spark_bucketing.checks.stub_tables import UNDESCRIBED, StubTables, configured_layout, parallelism, planner_settings
from spark_bucketing.errors import ProjectError, SparkError
from spark_bucketing.plan.document import TableFacts
from spark_bucketing.plan.planner import Planner, StubPlanner
from spark_bucketing.project.manifest import CatalogTable, Manifest, Node
from spark_bucketing.spec import BucketSpec

HIVE = {"clustered_by": ["K"], "buckets": 8, "partition_by": "ds"}


def stored(spec: BucketSpec | None = None, *partition_by: str, file_format: str = "parquet") -> TableFacts:
    return TableFacts("m", {}, spec, partition_by, file_format=file_format)


@pytest.mark.parametrize(
    ("config", "materialized", "layout"),
    [
        (HIVE, "bucketed_table", stored(BucketSpec(8, ("K",), ("K",), "hive"), "ds")),
        (HIVE | {"sorted_by": []}, "bucketed_table", stored(BucketSpec(8, ("K",), (), "hive"), "ds")),
        (HIVE | {"bucket_hash": "SPARK"}, "bucketed_incremental", stored(BucketSpec(8, ("K",), ("K",), "spark"), "ds")),
        (HIVE, "table", stored(BucketSpec(8, ("K",), (), "spark"), "ds")),
        ({"clustered_by": "k", "buckets": "8"}, "table", stored(BucketSpec(8, ("k",), (), "spark"))),
        (HIVE | {"file_format": "delta"}, "incremental", stored(None, "ds")),
        (HIVE | {"bucket_hash": "hive"}, "source", stored(BucketSpec(8, ("K",), (), "hive"), "ds")),
        ({"clustered_by": "k"}, "table", stored()),
        ({"file_format": "orc"}, "table", stored(file_format="orc")),
    ],
)
def test_stub_table_is_stored_as_configured(config: dict[str, Any], materialized: str, layout: TableFacts) -> None:
    assert configured_layout(config, materialized, "m") == layout


def test_offline_uses_planner_settings_but_no_warehouse_settings() -> None:
    used = {"spark.sql.shuffle.partitions": "7", "spark.bucketing.enabled": "true"}
    unused = {
        "spark.sql.warehouse.dir": "/w", "spark.sql.catalog.prod": "x.Y", "spark.master": "yarn",
        "spark.hadoop.hive.metastore.uris": "thrift://m",
    }  # fmt: skip
    assert planner_settings(used | unused) == used


@pytest.mark.parametrize(
    ("master", "others", "cores"),
    [
        ("local[7]", {}, "7"), ("local[7, 3]", {}, "7"), ("local", {}, "1"), ("local[*]", {}, str(os.cpu_count())),
        ("local[7]", {"spark.default.parallelism": "200"}, "200"), ("yarn", {}, None), (None, {}, None),
    ],
)  # fmt: skip
def test_offline_uses_the_target_s_number_of_cores(
    master: str | None, others: dict[str, str], cores: str | None
) -> None:
    settings = others | ({"spark.master": master} if master else {})
    assert parallelism(settings).get("spark.default.parallelism") == cores


def test_session_without_the_extension_is_refused_in_one_line() -> None:
    def refuse(sql: str) -> list[dict[str, Any]]:
        raise SparkError(f"[PARSE_SYNTAX_ERROR] Syntax error at or near '{sql[:7]}'.")

    with pytest.raises(SparkError, match=r"needs the session extension.*`spark-bucketing extension conf`") as error:
        Planner("live (thrift)", refuse).require_extension()
    assert "\n" not in str(error.value)


class Session:
    """A session that notes the statements of a planner, and returns an empty plan."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def rows(self, sql: str) -> list[dict[str, Any]]:
        self.sent.append(sql)
        empty = {"version": 1, "spark": "4.3.0", "settings": {}, "output": [], "roots": [], "nodes": [], "tables": {}}
        return [{"plan": json.dumps(empty)}]

    @property
    def assumed(self) -> dict[str, Any]:
        """Return what the last statement assumes."""
        literal = self.sent[-1].partition(" assuming '")[2].rpartition("' ")[0]
        found: dict[str, Any] = json.loads(literal.replace("\\'", "'").replace("\\\\", "\\"))
        return found


def test_planner_assumes_tables_and_settings_for_one_statement() -> None:
    session = Session()
    planner = Planner("", session.rows)
    planner.plan("select 1")
    assert session.sent == ["explain buckets format json select 1"]
    table = TableFacts("s.t", {"it's \\": "int", "ds": "string"}, BucketSpec(8, ("k",), (), "hive"), ("ds",), 9)
    planner.plan("select 1", [table], {"spark.bucketing.enabled": "false"})
    assert session.assumed == {
        "settings": {"spark.bucketing.enabled": "false"},
        "tables": [{
            "name": "s.t", "columns": [{"name": "it's \\", "type": "int"}, {"name": "ds", "type": "string"}],
            "partition_columns": ["ds"], "spec": {"buckets": 8, "columns": ["k"], "sort_columns": [], "hash": "hive"},
            "size_bytes": 9, "size_known": True, "format": "parquet", "files_per_bucket": 1,
        }],
    }  # fmt: skip


def test_stub_planner_assumes_what_a_query_reads_directly_or_through_views() -> None:
    session = Session()
    planner = StubPlanner("", session.rows)
    for name in ("s.a", "s.b", "s.c"):
        planner.define(TableFacts(name, {"k": "int"}))
    planner.define_view("s.v", "select * from `s`.`B`")
    planner.plan("select * from s.v join s.a using (k)", [TableFacts("s.a", {"k": "bigint"})])
    assert [(table["name"], table["columns"][0]["type"]) for table in session.assumed["tables"]] == [
        ("s.a", "bigint"), ("s.b", "int"),
    ]  # fmt: skip
    assert session.assumed["views"] == [{"name": "s.v", "sql": "select * from `s`.`B`"}]


def stub_of(*nodes: Node) -> tuple[StubTables, Mock]:
    planner = Mock()
    catalog = {node.unique_id: CatalogTable({"k": "int"}) for node in nodes}
    manifest = Manifest({node.unique_id: node for node in nodes})
    return StubTables(planner, manifest, catalog, Path()), planner


def source(unique_id: str, relation: str, **meta: Any) -> Node:
    return Node(unique_id, unique_id.split(".")[2], "source", "", relation, "source", source_name="raw", meta=meta)


def test_nodes_with_the_same_name_have_separate_stub_tables() -> None:
    nodes = [source("source.p.users.v1", "lake.p.users_v1"), source("source.p.users.v2", "lake.p.users_v2")]
    stub, planner = stub_of(*nodes, source("source.q.other", "lake.q.other"))
    names = {stub.relation(node) for node in nodes}
    assert len(names) == 2 and all(str(name).startswith("`raw__offline`.`users_") for name in names)
    assert stub.rewritten("select * from lake.q.other") == "select * from `raw__offline`.`other`"
    for node in nodes:
        stub.create(node)
    assert stub.missing == {} and len({call.args[0].name for call in planner.define.call_args_list}) == 2


def test_only_whole_names_are_replaced() -> None:
    names = {"lake.p.users": "s.users", "`c`.`d`.`t`": "s.t", "csv.`/a b`": "s.csv"}
    assert renamed("from lake.p.users_v1, x.lake.p.users, lake.p.users", names) == (
        "from lake.p.users_v1, x.lake.p.users, s.users"
    )
    untouched = "select 'lake.p.users', 'it''s \\' lake.p.users', \"lake.p.users\" -- lake.p.users\n/* lake.p.users */"
    assert renamed(untouched, names) == untouched
    assert renamed("select lake.p.users.k from `c`.`d`.`t` as t, csv.`/a b`", names) == (
        "select s.users.k from s.t as t, s.csv"
    )


@pytest.mark.parametrize(
    "config",
    [{"partition_by": 5}, {"clustered_by": {"k": 1}, "buckets": 8}, {"clustered_by": ["k"], "buckets": "²"},
     {"clustered_by": ["k"], "buckets": 8, "sorted_by": [1]}, {"clustered_by": "k", "buckets": "many"}],
)  # fmt: skip
def test_invalid_config_affects_only_its_own_table(config: dict[str, Any]) -> None:
    with pytest.raises(ProjectError, match=r"`m`[\s\S]*expected[\s\S]*instead"):
        configured_layout(config, "table", "m")
    node = source("source.p.a", "s.a", bucketing=config)
    stub, _ = stub_of(node)
    stub.create(node)
    assert "has an invalid" in stub.missing["s.a"]


def test_unexpected_error_does_not_affect_other_stub_tables() -> None:
    stub, planner = stub_of(node := source("source.p.a", "s.a"))
    planner.define.side_effect = TypeError
    stub.create(node)
    assert "TypeError" in stub.missing["s.a"]


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("select 1; -- end\n", "select 1"), ("select 1 ; /* a; b */ ;\n", "select 1"), ("select '; -- x'", "select '; -- x'"),
        ("select 1 -- no; end", "select 1 -- no; end"), ("select 1; select 2;", "select 1; select 2"),
    ],
)  # fmt: skip
def test_statement_ends_at_its_semicolon_regardless_of_comments(text: str, statement: str) -> None:
    assert one_statement(text) == statement


def test_project_path_is_relative_to_the_working_directory() -> None:
    found = [_folder_from(Path("/a/b"), Path(project)) for project in ("/a/b", "/a/b/c", "/a/d", "/a")]
    assert found == ["", "c", "../d", ".."]


def test_verdicts_apply_to_stub_table_names_too() -> None:
    node = source("source.p.events", "lake.p.events")
    stub, _ = stub_of(node)
    operator = OperatorResult("join", "", Verdict.SHUFFLED, ("raw__offline.events",))
    reader = ModelResult("a", "a.sql", (operator,), unique_id="model.p.a")
    model = Node("model.p.a", "a", "model", "a.sql", depends_on=(node.unique_id,))
    manifest = Manifest({node.unique_id: node, model.unique_id: model})
    for relation, verdict in ((stub.relation, Verdict.SHUFFLED), (lambda node: node.relation, None)):
        (result,) = with_graph([reader], manifest, relation, {})
        assert result.inputs == (Parent(node.unique_id, verdict),)


EIGHT = BucketSpec(8, ("k",), ("k",), "hive")
FOUR = replace(EIGHT, num_buckets=4)
OWNERS = Manifest(
    {kind: Node(kind, kind, kind, "", f"`s`.`{kind}s`", kind) for kind in ("seed", "snapshot", "source", "model")}
)


def joined(*fixes: Fix) -> ModelResult:
    operator = OperatorResult("join", "", Verdict.SHUFFLED, ("s.t",), findings=(Finding("union", "", fixes=fixes),))
    return ModelResult("m", "m.sql", (operator,))


def bucket(table: str, *also: Fix) -> Fix:
    return Fix("bucket_spec", f"Bucket {table}.", table=table, also=also)


def test_fixes_name_tables_that_dbt_cannot_bucket() -> None:
    fixes = [bucket(f"s.{kind}s") for kind in OWNERS.nodes]
    fixes += [bucket("s.models", bucket("s.seeds")), Fix("setting", "Set a=b.")]
    (result,) = with_graph([joined(*fixes)], OWNERS, lambda node: node.relation, {})
    seed, snapshot, source, model, both, setting = (fix.text for fix in result.operators[0].findings[0].fixes)
    assert seed.startswith("Bucket s.seeds. s.seeds is a seed, which dbt cannot bucket")
    assert "is a snapshot" in snapshot and "is a source" in source and "s.seeds is a seed" in both
    assert (model, setting) == ("Bucket s.models.", "Set a=b.")


def test_table_built_without_its_configured_buckets_is_named() -> None:
    (result,) = with_configured([joined()], {"s.t": EIGHT}, [TableFacts("s.t", {})])
    assert "s.t is configured with 8 buckets by k, not built yet" in result.operators[0].findings[0].message
    assert with_configured([joined()], {"s.t": EIGHT}, [TableFacts("s.t", {}, EIGHT)]) == (joined(),)


def test_fix_that_the_config_already_has_is_to_run_dbt() -> None:
    text = f"Bucket s.models with {EIGHT.config}."
    own = Fix("bucket_spec", text, table="s.models", spec=EIGHT)
    both = replace(own, text=f"Set a=b. And b{text[1:]}", also=(replace(own, text=text),))
    for configured, said in ((EIGHT, True), (replace(EIGHT, sort_columns=("K", "v")), True), (FOUR, False)):
        (result,) = with_graph([joined(own, both)], OWNERS, lambda node: node.relation, {"s.models": configured})
        for fix in result.operators[0].findings[0].fixes:
            assert ("Run `dbt run --full-refresh --select model` to build s.models" in fix.text) == said
            assert (EIGHT.config in fix.text) != said and fix.text.startswith("Set a=b. And ") == bool(fix.also)


def test_seed_without_size_in_the_catalog_has_the_size_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k\n1\n2\n3\n")
    node = Node("seed.p.a", "a", "seed", "a.csv", "s.a", "seed")
    for in_catalog, size in ((None, 8), (5, 5)):
        planner, catalog = Mock(), {node.unique_id: CatalogTable({"k": "int"}, in_catalog)}
        StubTables(planner, Manifest({node.unique_id: node}), catalog, tmp_path).create(node)
        assert planner.define.call_args.args[0].size_bytes == size


def test_queries_over_undescribed_sources_have_one_cause() -> None:
    nodes = [source("source.p.a", "s.a"), Node("model.p.b", "b", "model", "b.sql", "s.b", "table", "select * from s.a")]
    stub, planner = stub_of(*nodes)
    stub = StubTables(planner, Manifest({node.unique_id: node for node in nodes}), {}, Path())
    planner.columns.side_effect = SparkError("[TABLE_OR_VIEW_NOT_FOUND] `s`.`a` cannot be found.")
    for node in nodes:
        stub.create(node)
    errors = {stub.why(f"[TABLE_OR_VIEW_NOT_FOUND] `s`.`{name}` cannot be found.") for name in "ab"}
    assert errors == {UNDESCRIBED} and stub.undescribed == {"s.a": "source `a`"}
    assert stub.why("`s`.`c` cannot be found.") == "`s`.`c` cannot be found."


@pytest.mark.parametrize(
    ("hook", "created"),
    [
        ("create temporary function f as 'x.Y';", True),
        ("CREATE OR REPLACE TEMPORARY FUNCTION `f`(x int) returns int return x + 1", True),
        ("create function f as 'x.Y'", False),
        ("create temporary function {{ var('f') }} as 'x.Y'", False),
        ("insert into log select 1", False),
    ],
)
def test_temporary_functions_of_hooks_exist_during_planning(hook: str, created: bool) -> None:
    planner = Mock()
    with stub_tables.created(planner, stub_tables.temporary_functions({"pre-hook": [{"sql": hook}]})):
        assert [call.args[0] for call in planner.rows.call_args_list] == [hook.rstrip(";")] * created
    assert len(planner.rows.call_args_list) == 2 * created
