"""Tests that the check reads a dbt project correctly: manifest, catalog, compilation, selection and queries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dbt_projects import VERSION, compiled, dbt_project, later

from spark_bucketing.checks.checker import Subject, file_subject, model_subject, offline_tasks, selectable
from spark_bucketing.errors import ProfileError, ProjectError
from spark_bucketing.project.dbt import Dbt, Selection
from spark_bucketing.project.freshness import is_fresh, read_project
from spark_bucketing.project.manifest import (
    CatalogTable,
    Manifest,
    Node,
    read_catalog,
    read_manifest,
    relation_parts,
    seed_columns,
    table_name,
)
from spark_bucketing.project.profile import Place, read_target


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


@pytest.mark.parametrize(
    "change", ["models/new.sql", "macros/m.sql", "dbt_project.yml", "packages.yml", "profiles.yml", "seeds/s.csv"]
)
def test_manifest_is_fresh_until_a_project_file_changes(change: str, project: Path) -> None:
    manifest = compiled(project)
    assert is_fresh(manifest, project, project)
    later(project / change, 20)
    assert not is_fresh(manifest, project, project)


def test_changed_model_of_a_linked_package_makes_the_manifest_stale(project: Path, tmp_path: Path) -> None:
    package = dbt_project(tmp_path / "shared")
    (package / "models" / "a.sql").touch()
    (package / "models" / "again").symlink_to(package / "models")
    (project / "dbt_packages").mkdir()
    (project / "dbt_packages" / "shared").symlink_to(package)
    manifest = compiled(project)
    assert is_fresh(manifest, project, project)
    later(package / "models" / "a.sql", 20)
    assert not is_fresh(manifest, project, project)


def test_manifest_of_another_target_run_or_variables_is_stale(project: Path) -> None:
    manifest = compiled(project, target="prod", vars={"a": 1})
    assert is_fresh(manifest, project, project, "prod", "{a: 1}")
    assert not is_fresh(manifest, project, project, None, "{a: 1}")
    assert not is_fresh(manifest, project, project, "prod", "{a: 2}")
    (manifest.parent / "run_results.json").unlink()
    assert not is_fresh(manifest, project, project, "prod", "{a: 1}")
    assert not is_fresh(project / "none.json", project, project)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("{", "not valid JSON"),
        ([], "no dbt_schema_version"),
        ({"metadata": None}, "no dbt_schema_version"),
        ({"metadata": {"dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v4.json"}}, "v4.json"),
        ({"metadata": VERSION, "nodes": []}, "invalid node"),
        ({"metadata": VERSION, "nodes": None}, "invalid node"),
        ({"metadata": VERSION, "nodes": {"a": {}}}, "invalid node"),
        ({"metadata": VERSION, "nodes": {"a": {"unique_id": "a", "resource_type": "model"}}}, "invalid node"),
        (
            {"metadata": VERSION, "nodes": {"a": {"unique_id": "a", "name": "a", "resource_type": "x", "meta": ["x"]}}},
            "invalid node",
        ),
        (None, "m.json` cannot be read.\n  found:    No such file"),
    ],
)
def test_unreadable_manifest_is_an_error(data: object, said: str, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "m.json").write_text(data if isinstance(data, str) else json.dumps(data))
    with pytest.raises(ProjectError, match=rf"m\.json[\s\S]*{said}" if "m.json" not in said else said):
        read_manifest(tmp_path / "m.json")


def test_catalog_returns_columns_in_order_and_sizes(tmp_path: Path) -> None:
    columns = {"b": {"name": "b", "type": "int", "index": 2}, "a": {"name": "a", "type": "date", "index": 1}}
    stats = {"bytes": {"value": 12.0}, "has_stats": {"value": True}}
    file = tmp_path / "catalog.json"
    file.write_text(
        json.dumps({"nodes": {"x": {"columns": columns, "stats": stats}, "y": {"columns": {}}}, "sources": {}})
    )
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


def test_unreadable_project_is_an_error_with_dbt_s_message(dbt: Dbt) -> None:
    (dbt.project_dir / "models" / "bad.sql").write_text("select {{ ref('nothing') }}")
    with pytest.raises(ProjectError, match="nothing"):
        dbt.compile()


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


def test_parents_come_before_their_children() -> None:
    order = MANIFEST.order
    assert len(order) == 6
    assert all(order.index(parent) < order.index(name) for name in order for parent in MANIFEST.nodes[name].depends_on)


def test_long_chain_of_models_is_ordered_without_recursion() -> None:
    nodes = {f"m{i}": Node(f"m{i}", f"m{i}", "model", "", depends_on=(f"m{i + 1}",)) for i in range(5000)}
    assert Manifest(nodes).order[0] == "m4999"


def test_models_with_their_own_query_are_checked() -> None:
    assert selectable(MANIFEST) == tuple(
        name for name in MANIFEST.order if name in ("model.p.lonely", "model.p.y", "model.p.z")
    )


def test_offline_check_creates_stubs_only_for_tables_that_queries_read(tmp_path: Path) -> None:
    checked = [model_subject(MANIFEST.nodes[f"model.p.{name}"], tmp_path) for name in "zy"]
    tasks = [(type(task), task.name) for task in offline_tasks(checked, MANIFEST)]
    assert tasks == [(Node, "a"), (Node, "x"), (Subject, "y"), (Node, "y"), (Subject, "z")]
    *stubs, file = offline_tasks([Subject("q.sql", "q.sql", "select 1")], MANIFEST)
    assert {task.name for task in stubs} == {"a", "x", "y", "z", "lonely"} and isinstance(file, Subject)


def test_file_is_compiled_by_dbt_or_used_as_plain_sql(tmp_path: Path) -> None:
    project, file = tmp_path / "project", tmp_path / "q.sql"
    subject = file_subject(project / "models" / "y.sql", project, MANIFEST, {})
    assert (subject.unique_id, subject.sql) == ("model.p.y", "select 1")
    broken = file_subject(project / "models" / "y.sql", project, MANIFEST, {"model.p.y": "no such luck"})
    assert broken.error == "no such luck"
    # The file may start with a byte order mark.
    for start in (b"", b"\xef\xbb\xbf"):
        file.write_bytes(start + b"select 1;\n")
        assert file_subject(file, project, MANIFEST, {}).sql == "select 1"
    file.write_text("select {{ x }}")
    with pytest.raises(ProjectError, match="contains Jinja"):
        file_subject(file, tmp_path, Manifest({}), {})


def test_python_model_is_reported_as_having_no_sql(tmp_path: Path) -> None:
    python = Node("model.p.py", "py", "model", "models/py.py", "s.py", sql="def model(): ...", language="python")
    subject = model_subject(python, tmp_path)
    assert subject.sql is None and "Python model" in str(subject.error)


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


@pytest.mark.parametrize(
    ("relation", "parts", "name"),
    [
        ("s.t", ("s", "t"), "s.t"),
        ("`s`.`a.b``c`", ("s", "a.b`c"), "s.a.b`c"),
        ("ice.`S`.T", ("ice", "S", "T"), "ice.s.t"),
        ("spark_catalog.`S`.T", ("spark_catalog", "S", "T"), "s.t"),
        ("csv.`/a/b` with (header = true)", None, "csv.`/a/b` with (header = true)"),
        ("", None, ""),
    ],
)
def test_names_are_split_into_parts_and_shown_as_in_plans(
    relation: str, parts: tuple[str, ...] | None, name: str
) -> None:
    assert (relation_parts(relation), table_name(relation)) == (parts, name)
