"""Tests of check's input without Spark: a dbt project and its SQL, stub tables, and settings."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from case_tables import cases
from dbt_projects import VERSION, compiled, dbt_project, later

from spark_bucketing.checks import stub_tables
from spark_bucketing.checks.checker import Checker, file_node, offline_tasks, query_node, selectable
from spark_bucketing.checks.project import _folder_from, with_configured, with_graph
from spark_bucketing.checks.results import Finding, Fix, ModelResult, OperatorResult, Parent, Verdict
from spark_bucketing.checks.sql_text import source_line
from spark_bucketing.checks.stub_tables import UNDESCRIBED, StubTables, configured_layout, parallelism
from spark_bucketing.errors import ProfileError, ProjectError, SparkError
from spark_bucketing.plan.document import TableFacts
from spark_bucketing.plan.planner import Planner
from spark_bucketing.project.dbt import Dbt, Selection
from spark_bucketing.project.manifest import (
    CatalogTable,
    Manifest,
    Node,
    is_fresh,
    read_catalog,
    read_manifest,
    read_project,
    seed_columns,
)
from spark_bucketing.project.profile import Place, read_target
from spark_bucketing.spec import BucketSpec


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return dbt_project(tmp_path / "p")


@pytest.mark.parametrize("name", ["profiles.yml", "dbt_project.yml"])
def test_file_with_invalid_utf_8_is_an_error(name: str, project: Path) -> None:
    (project / name).write_bytes(b"p: \xe9\n")
    with pytest.raises(ProfileError, match="UTF-8"):
        read_target(Place(project, project))
    if name == "dbt_project.yml":
        with pytest.raises(ProjectError, match="cannot be read"):
            read_project(project)


OF_PROJECT = ["models/new.sql", "macros/m.sql", "dbt_project.yml", "packages.yml", "profiles.yml", "seeds/s.csv"]


@pytest.mark.parametrize("change", [*OF_PROJECT, "models/linked/a.sql", "dbt_packages/shared/models/a.sql"])
def test_manifest_is_fresh_until_a_file_of_the_project_or_of_a_link_changes(
    change: str, project: Path, tmp_path: Path
) -> None:
    package = dbt_project(tmp_path / "shared")
    (package / "models" / "a.sql").touch()
    (package / "models" / "again").symlink_to(package / "models")
    (project / "dbt_packages").mkdir()
    (project / "dbt_packages" / "shared").symlink_to(package)
    (tmp_path / "elsewhere").mkdir()
    (project / "models" / "linked").symlink_to(tmp_path / "elsewhere")
    manifest = compiled(project)
    assert is_fresh(manifest, project, project)
    later(project / change, 20)
    assert not is_fresh(manifest, project, project)


def test_manifest_of_another_target_run_or_variables_is_stale(project: Path) -> None:
    manifest = compiled(project, target="prod", vars={"a": 1})
    given = (("prod", "{a: 1}"), (None, "{a: 1}"), ("prod", "{a: 2}"))
    assert [is_fresh(manifest, project, project, *one) for one in given] == [True, False, False]
    (manifest.parent / "run_results.json").unlink()
    assert not is_fresh(manifest, project, project, "prod", "{a: 1}")
    assert not is_fresh(project / "none.json", project, project)


@cases("project/manifests", text=None, nodes=None, said=...)
def test_unreadable_manifest_is_an_error(text: str | None, nodes: str | None, said: str, tmp_path: Path) -> None:
    text = f'{{"metadata": {json.dumps(VERSION)}, "nodes": {nodes}}}' if nodes else text
    if text is not None:
        (tmp_path / "m.json").write_text(text)
    with pytest.raises(ProjectError, match=rf"m\.json[\s\S]*{said}"):
        read_manifest(tmp_path / "m.json")


def test_catalog_returns_columns_in_order_and_sizes(tmp_path: Path) -> None:
    columns = {"b": {"name": "b", "type": "int", "index": 2}, "a": {"name": "a", "type": "date", "index": 1}}
    stats = {"bytes": {"value": 12.0}, "has_stats": {"value": True}}
    nodes, file = {"x": {"columns": columns, "stats": stats}, "y": {"columns": {}}}, tmp_path / "catalog.json"
    file.write_text(json.dumps({"nodes": nodes, "sources": {}}))
    catalog = read_catalog(file)
    assert catalog == {"x": CatalogTable({"a": "date", "b": "int"}, 12), "y": CatalogTable({}, None)}
    assert list(catalog["x"].columns) == ["a", "b"]
    file.write_text("{")
    with pytest.raises(ProjectError, match="cannot be read"):
        read_catalog(file)


@pytest.fixture
def dbt(tmp_path: Path) -> Dbt:
    """Create a project with an unreachable warehouse; dbt compiles and selects without a warehouse."""
    project = dbt_project(tmp_path, method="thrift", host="127.0.0.1", port=1, user="me")
    for name, sql in {
        "good": "select {{ var('x', 1) }} as a",
        "broken": "select 1 {% if execute %}{{ exceptions.raise_compiler_error('no such luck') }}{% endif %}",
        "child": "select * from {{ ref('broken') }}",
    }.items():
        (project / "models" / f"{name}.sql").write_text(sql)
    return Dbt(project, project, project / "target" / "spark-bucketing")


def test_dbt_compiles_all_valid_nodes_and_selects(dbt: Dbt, capfd: pytest.CaptureFixture[str]) -> None:
    failed = dbt.compile()
    assert list(failed) == ["model.p.broken"] and "no such luck" in failed["model.p.broken"]
    manifest = dbt.target_path / "manifest.json"
    sql = {node.name: node.sql for node in read_manifest(manifest).nodes.values()}
    assert sql == {"good": "select 1 as a", "broken": None, "child": "select * from s.broken"}
    assert is_fresh(manifest, dbt.project_dir, dbt.profiles_dir)
    assert not is_fresh(manifest, dbt.project_dir, dbt.profiles_dir, variables="{x: 2}")
    assert set(dbt.select(Selection(("broken+",)))) == {"model.p.broken", "model.p.child"}
    assert dbt.select(Selection((), ("good", "broken")), manifest) == ("model.p.child",)
    with pytest.raises(ProjectError, match="nope"):
        dbt.select(Selection(("nope:x",)))
    # A selection does not change the compiled manifest, and dbt prints nothing to the report's output.
    assert is_fresh(manifest, dbt.project_dir, dbt.profiles_dir) and read_manifest(manifest).nodes["model.p.good"].sql
    assert capfd.readouterr().out == ""
    assert not (dbt.project_dir / "logs").exists()
    # A project that dbt cannot read is an error with dbt's message.
    (dbt.project_dir / "models" / "bad.sql").write_text("select {{ ref('nothing') }}")
    with pytest.raises(ProjectError, match="nothing"):
        dbt.compile()


def node(name: str, *parents: str, kind: str = "model", **more: Any) -> Node:
    own = {"materialized": "table", "sql": "select 1", **more}
    return Node(f"{kind}.p.{name}", name, kind, f"models/{name}.sql", f"s.{name}", depends_on=parents, **own)


NODES = (
    node("z", "model.p.y"), node("y", "model.p.x", "source.p.a"), node("x", "source.p.a", materialized="ephemeral"),
    node("a", kind="source", materialized="source", sql=None), node("lonely"), node("t", "model.p.z", kind="test"),
)  # fmt: skip
MANIFEST = Manifest({one.unique_id: one for one in NODES})


def test_parents_come_before_their_children_and_models_with_their_own_query_are_checked() -> None:
    order = MANIFEST.order
    assert len(order) == 6
    assert all(order.index(parent) < order.index(name) for name in order for parent in MANIFEST.nodes[name].depends_on)
    assert selectable(MANIFEST) == tuple(one for one in order if one in ("model.p.lonely", "model.p.y", "model.p.z"))
    # A long chain is ordered without recursion.
    chain = {f"m{i}": Node(f"m{i}", f"m{i}", "model", "", depends_on=(f"m{i + 1}",)) for i in range(5000)}
    assert Manifest(chain).order[0] == "m4999"


def test_offline_check_creates_stubs_only_for_tables_that_queries_read() -> None:
    checked = [MANIFEST.nodes[f"model.p.{name}"] for name in "zy"]
    tasks = [(node.name, is_checked) for node, is_checked in offline_tasks(checked, MANIFEST)]
    assert tasks == [("a", False), ("x", False), ("y", True), ("y", False), ("z", True)]
    query = query_node("q.sql", "select 1")
    *stubs, file = offline_tasks([query], MANIFEST)
    assert {(node.name, is_checked) for node, is_checked in stubs} == {
        (name, False) for name in ("a", "x", "y", "z", "lonely")
    }
    assert file == (query, True)
    # Offline planning uses all cores if the target does.
    assert parallelism({"spark.master": "local[*]"}) == {"spark.default.parallelism": str(os.cpu_count())}


def test_file_is_compiled_by_dbt_or_used_as_plain_sql(tmp_path: Path) -> None:
    project, file = tmp_path / "project", tmp_path / "q.sql"
    found = file_node(project / "models" / "y.sql", project, MANIFEST)
    assert (found.unique_id, found.sql) == ("model.p.y", "select 1")
    checker = Checker(Mock(), Mock(), Mock(), errors={"model.p.y": "no such luck"})
    assert checker.check(replace(found, sql=None)).error == "no such luck"
    # The file may start with a byte order mark.
    for start in (b"", b"\xef\xbb\xbf"):
        file.write_bytes(start + b"select 1;\n")
        assert file_node(file, project, MANIFEST).sql == "select 1"
    file.write_text("select {{ x }}")
    with pytest.raises(ProjectError, match="contains Jinja"):
        file_node(file, tmp_path, Manifest({}))
    python = checker.check(node("py", sql="def model(): ...", language="python"))
    assert "Python model" in str(python.error)


def test_seed_columns_match_the_columns_that_dbt_loads(tmp_path: Path) -> None:
    file = tmp_path / "s.csv"
    file.write_text(
        "k;price;day;at;name;code\n1;1.5;2024-01-01;2024-01-01 10:00:00;x;007\n2;2;2024-01-02;2024-01-02 11:00:00;y;008\n"
    )
    assert seed_columns(file, {"delimiter": ";", "column_types": {"code": "string"}}) == {
        "k": "bigint", "price": "double", "day": "date", "at": "timestamp", "name": "string", "code": "string",
    }  # fmt: skip
    with pytest.raises(ProjectError, match="cannot be read"):
        seed_columns(tmp_path / "none.csv", {})


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


def test_planner_assumes_defined_tables_that_a_query_reads_directly_or_through_views() -> None:
    session = Session()
    planner = Planner("", session.rows)
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


@pytest.mark.parametrize(
    "config",
    [{"partition_by": 5}, {"clustered_by": {"k": 1}, "buckets": 8}, {"clustered_by": ["k"], "buckets": "²"},
     {"clustered_by": ["k"], "buckets": 8, "sorted_by": [1]}, {"clustered_by": "k", "buckets": "many"}],
)  # fmt: skip
def test_invalid_config_and_an_unexpected_error_affect_only_their_own_table(config: dict[str, Any]) -> None:
    with pytest.raises(ProjectError, match=r"`m`[\s\S]*expected[\s\S]*instead"):
        configured_layout(config, "table", "m")
    nodes = source("source.p.a", "s.a", bucketing=config), source("source.p.b", "s.b")
    stub, planner = stub_of(*nodes)
    planner.define.side_effect = TypeError
    for node in nodes:
        stub.create(node)
    assert "has an invalid" in stub.missing["s.a"] and "TypeError" in stub.missing["s.b"]


def test_project_path_is_relative_to_the_working_directory() -> None:
    found = [_folder_from(Path("/a/b"), Path(project)) for project in ("/a/b", "/a/b/c", "/a/d", "/a")]
    assert found == ["", "c", "../d", ".."]


@pytest.mark.parametrize(("verdict", "is_stub"), [(Verdict.SHUFFLED, True), (None, False)])
def test_verdicts_apply_to_stub_table_names_too(verdict: Verdict | None, is_stub: bool) -> None:
    events = source("source.p.events", "lake.p.events")
    operator = OperatorResult("join", "", Verdict.SHUFFLED, ("raw__offline.events",))
    reader = ModelResult("a", "a.sql", (operator,), unique_id="model.p.a")
    manifest = Manifest({one.unique_id: one for one in (events, node("a", events.unique_id))})
    relation = stub_of(events)[0].relation if is_stub else lambda one: one.relation
    (result,) = with_graph([reader], manifest, relation, {})
    assert result.inputs == (Parent(events.unique_id, verdict),)


EIGHT = BucketSpec(8, ("k",), ("k",), "hive")
FOUR = replace(EIGHT, num_buckets=4)
OWNERS = Manifest(
    {kind: Node(kind, kind, kind, "", f"`s`.`{kind}s`", kind) for kind in ("seed", "snapshot", "source", "model")}
)


def joined(*fixes: Fix) -> ModelResult:
    operator = OperatorResult("join", "", Verdict.SHUFFLED, ("s.t",), findings=(Finding("union", "", fixes=fixes),))
    return ModelResult("m", "m.sql", (operator,))


def fixes_in_graph(*fixes: Fix, configured: BucketSpec | None = None) -> list[Fix]:
    """Return the fixes of a join after they are adapted to the nodes that own the tables."""
    specs = {"s.models": configured} if configured else {}
    (result,) = with_graph([joined(*fixes)], OWNERS, lambda node: node.relation, specs)
    return list(result.operators[0].findings[0].fixes)


def bucket(table: str, *also: Fix) -> Fix:
    return Fix("bucket_spec", f"Bucket {table}.", table=table, also=also)


def test_fixes_name_tables_that_dbt_cannot_bucket() -> None:
    fixes = [bucket(f"s.{kind}s") for kind in OWNERS.nodes]
    fixes += [bucket("s.models", bucket("s.seeds")), Fix("setting", "Set a=b.")]
    seed, snapshot, source, model, both, setting = (fix.sentences for fix in fixes_in_graph(*fixes))
    assert seed.startswith("Bucket s.seeds. s.seeds is a seed, which dbt cannot bucket")
    assert "is a snapshot" in snapshot and "is a source" in source and "s.seeds is a seed" in both
    assert (model, setting) == ("Bucket s.models.", "Set a=b.")


def test_table_built_without_its_configured_buckets_is_named() -> None:
    (result,) = with_configured([joined()], {"s.t": EIGHT}, [TableFacts("s.t", {})])
    assert "s.t is configured with 8 buckets by (k), not built yet" in result.operators[0].findings[0].message
    assert with_configured([joined()], {"s.t": EIGHT}, [TableFacts("s.t", {}, EIGHT)]) == (joined(),)


def test_fix_that_the_config_already_has_is_to_run_dbt() -> None:
    text = f"Bucket s.models with {EIGHT.config}."
    own = Fix("bucket_spec", text, table="s.models", spec=EIGHT)
    both = Fix("setting", "Set a=b.", also=(own,))
    for configured, said in ((EIGHT, True), (replace(EIGHT, sort_columns=("K", "v")), True), (FOUR, False)):
        for fix in fixes_in_graph(own, both, configured=configured):
            assert ("un `dbt run --full-refresh --select model` to build s.models" in fix.sentences) == said
            assert (EIGHT.config in fix.sentences) != said
            assert fix.sentences.startswith("Set a=b. And ") == bool(fix.also)


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
    planner.plan.side_effect = SparkError("[TABLE_OR_VIEW_NOT_FOUND] `s`.`a` cannot be found.")
    for node in nodes:
        stub.create(node)
    errors = {stub.why(f"[TABLE_OR_VIEW_NOT_FOUND] `s`.`{name}` cannot be found.") for name in "ab"}
    assert errors == {UNDESCRIBED} and stub.undescribed == {"s.a": "source `a`"}
    assert stub.why("`s`.`c` cannot be found.") == "`s`.`c` cannot be found."


@pytest.mark.parametrize(
    ("hook", "created"),
    [
        ("create temporary function f as 'x.Y';", True), ("create function f as 'x.Y'", False), ("insert into log select 1", False),
        ("CREATE OR REPLACE TEMPORARY FUNCTION `f`(x int) returns int return x + 1", True),
        ("create temporary function {{ var('f') }} as 'x.Y'", False),
    ],
)  # fmt: skip
def test_temporary_functions_of_hooks_exist_during_planning(hook: str, created: bool) -> None:
    planner = Mock()
    with stub_tables.created(planner, stub_tables.temporary_functions({"pre-hook": [{"sql": hook}]})):
        assert [call.args[0] for call in planner.rows.call_args_list] == [hook.rstrip(";")] * created
    assert len(planner.rows.call_args_list) == 2 * created


@cases("shared/lines", compiled=..., raw=..., lines=...)
def test_compiled_line_is_found_in_the_model(compiled: str, raw: str, lines: dict[int, int | None]) -> None:
    assert {number: source_line(compiled, number, raw) for number in lines} == lines

    # A line with much Jinja is mapped quickly.
    raw = "select " + " ".join(f"{{{{ c{i} }}}}" for i in range(12)) + " end_of_line\n"
    start = time.process_time()
    assert source_line("select " + "c " * 80 + "from x join y on a\nselect 1", 1, raw) is None
    assert time.process_time() - start < 1
