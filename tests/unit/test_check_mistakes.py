"""What users get wrong in configs, files and arguments: an error that says so, and never the exit code of findings."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import spark_bucketing.cli.check
from spark_bucketing.check.command import _folder_from
from spark_bucketing.check.configs import with_graph
from spark_bucketing.check.layout_config import configured_layout
from spark_bucketing.check.results import ModelResult, OperatorResult, Parent, Verdict
from spark_bucketing.check.shadow import Shadow
from spark_bucketing.check.sql_text import one_statement, renamed
from spark_bucketing.cli import main
from spark_bucketing.errors import ProfileError, ProjectError
from spark_bucketing.plan.whatif import HypotheticalTable
from spark_bucketing.project.catalog import CatalogTable
from spark_bucketing.project.freshness import is_fresh, read_project
from spark_bucketing.project.manifest import Manifest, Node, read_manifest
from spark_bucketing.project.profile import Place, read_target


class Definitions:
    """Takes the definitions of tables; what they mean is for a real Spark to say."""

    def __init__(self) -> None:
        self.tables: dict[str, HypotheticalTable] = {}

    def define(self, table: HypotheticalTable) -> None:
        self.tables[table.name] = table


def shadow_of(*nodes: Node) -> tuple[Shadow, Definitions]:
    whatif = Definitions()
    catalog = {node.unique_id: CatalogTable({"k": "int"}) for node in nodes}
    manifest = Manifest({node.unique_id: node for node in nodes})
    return Shadow(whatif, manifest, catalog, Path()), whatif  # type: ignore[arg-type]


def source(unique_id: str, relation: str, **meta: Any) -> Node:
    return Node(unique_id, unique_id.split(".")[2], "source", "", relation, "source", source_name="raw", meta=meta)


def test_nodes_of_the_same_name_have_shadows_of_their_own() -> None:
    nodes = [source("source.p.users.v1", "lake.p.users_v1"), source("source.p.users.v2", "lake.p.users_v2")]
    shadow, whatif = shadow_of(*nodes, source("source.q.other", "lake.q.other"))
    names = {shadow.relation(node) for node in nodes}
    assert len(names) == 2 and all(str(name).startswith("`raw__offline`.`users_") for name in names)
    assert shadow.rewritten("select * from lake.q.other") == "select * from `raw__offline`.`other`"
    for node in nodes:
        shadow.create(node)
    assert shadow.missing == {} and len(whatif.tables) == 2


def test_names_are_replaced_where_they_are_names_of_their_own() -> None:
    names = {"lake.p.users": "s.users", "`c`.`d`.`t`": "s.t", "csv.`/a b`": "s.csv"}
    assert renamed("from lake.p.users_v1, x.lake.p.users, lake.p.users", names) == (
        "from lake.p.users_v1, x.lake.p.users, s.users"
    )
    untouched = "select 'lake.p.users', 'it''s \\' lake.p.users', \"lake.p.users\" -- lake.p.users\n/* lake.p.users */"
    assert renamed(untouched, names) == untouched
    assert renamed("select lake.p.users.k from `c`.`d`.`t` as t, csv.`/a b`", names) == (
        "select s.users.k from s.t as t, s.csv"
    )


@pytest.mark.parametrize("config", [{"clustered_by": "k"}, {"buckets": 4}])
def test_half_a_layout_is_an_error_that_names_the_model(config: dict[str, Any]) -> None:
    with pytest.raises(ProjectError, match=r"'orders'[\s\S]*expected"):
        configured_layout(config, "bucketed_table", "orders")


@pytest.mark.parametrize(
    "config",
    [{"partition_by": 5}, {"clustered_by": {"k": 1}, "buckets": 8}, {"clustered_by": ["k"], "buckets": "²"},
     {"clustered_by": ["k"], "buckets": 8, "sorted_by": [1]}, {"clustered_by": "k", "buckets": "many"}],
)  # fmt: skip
def test_a_config_that_makes_no_sense_is_an_error_of_its_table_alone(config: dict[str, Any]) -> None:
    with pytest.raises(ProjectError, match=r"'m'[\s\S]*expected[\s\S]*instead"):
        configured_layout(config, "table", "m")
    node = source("source.p.a", "s.a", bucketing=config)
    shadow, _ = shadow_of(node)
    shadow.create(node)
    assert "Invalid" in shadow.missing["s.a"]


def test_an_error_that_nobody_has_thought_of_leaves_the_other_shadows() -> None:
    node = source("source.p.a", "s.a")
    shadow, whatif = shadow_of(node)
    whatif.tables = None  # type: ignore[assignment]
    shadow.create(node)
    assert "TypeError" in shadow.missing["s.a"]


VERSION = {"dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v12.json"}


@pytest.mark.parametrize(
    "data",
    [
        {"metadata": None},
        {"metadata": VERSION, "nodes": []},
        {"metadata": VERSION, "nodes": None},
        {"metadata": VERSION, "nodes": {"a": {}}},
        {"metadata": VERSION, "nodes": {"a": {"unique_id": "a", "resource_type": "model"}}},
        {"metadata": VERSION, "nodes": {"a": {"unique_id": "a", "name": "a", "resource_type": "model", "meta": ["x"]}}},
    ],
)
def test_a_manifest_with_parts_that_are_none_is_an_error(data: object, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps(data))
    with pytest.raises(ProjectError, match=r"m\.json"):
        read_manifest(tmp_path / "m.json")


def project(folder: Path) -> Path:
    (folder / "models").mkdir(parents=True)
    (folder / "dbt_project.yml").write_text("name: p\nprofile: p\n")
    (folder / "profiles.yml").write_text(
        "p: {target: t, outputs: {t: {type: spark, method: session, host: NA, schema: s}}}"
    )
    return folder


@pytest.mark.parametrize("name", ["profiles.yml", "dbt_project.yml"])
def test_a_file_that_is_no_utf_8_is_an_error(name: str, tmp_path: Path) -> None:
    folder = project(tmp_path / "p")
    (folder / name).write_bytes(b"p: \xe9\n")
    with pytest.raises(ProfileError, match="UTF-8"):
        read_target(Place(folder, folder))
    if name == "dbt_project.yml":
        with pytest.raises(ProjectError, match="cannot be read"):
            read_project(folder)


def test_a_changed_model_of_a_linked_package_makes_a_manifest_stale(tmp_path: Path) -> None:
    folder, package = project(tmp_path / "p"), project(tmp_path / "shared")
    (package / "models" / "a.sql").write_text("select 1")
    (package / "models" / "again").symlink_to(package / "models")
    (folder / "dbt_packages").mkdir()
    (folder / "dbt_packages" / "shared").symlink_to(package)
    target = folder / "target"
    target.mkdir()
    run = {"metadata": {"invocation_id": "1"}, "args": {"vars": {}}}
    for name in ("manifest.json", "run_results.json"):
        (target / name).write_text(json.dumps(run))
    later = time.time() + 10
    os.utime(target / "manifest.json", (later, later))
    assert is_fresh(target / "manifest.json", folder, folder)
    os.utime(package / "models" / "a.sql", (later + 10, later + 10))
    assert not is_fresh(target / "manifest.json", folder, folder)


def test_the_exit_code_of_a_mistake_of_the_program_is_not_that_of_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("unique_id")

    monkeypatch.setattr(spark_bucketing.cli.check, "check_project", broken)
    result = CliRunner().invoke(main, ["check"])
    assert result.exit_code == 2
    assert "KeyError: 'unique_id'" in result.output and "Traceback" not in result.output


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("select 1; -- end\n", "select 1"),
        ("select 1 ; /* a; b */ ;\n", "select 1"),
        ("select '; -- x'", "select '; -- x'"),
        ("select 1 -- no; end", "select 1 -- no; end"),
        ("select 1; select 2;", "select 1; select 2"),
    ],
)
def test_a_statement_ends_at_its_semicolon_whatever_comments_follow(text: str, statement: str) -> None:
    assert one_statement(text) == statement


def test_a_project_is_found_again_from_where_the_check_ran() -> None:
    found = [_folder_from(Path("/a/b"), Path(project)) for project in ("/a/b", "/a/b/c", "/a/d", "/a")]
    assert found == ["", "c", "../d", ".."]


def test_what_happens_to_the_rows_of_a_table_is_known_under_the_name_of_its_shadow_too() -> None:
    node = source("source.p.events", "lake.p.events")
    shadow, _ = shadow_of(node)
    operator = OperatorResult("join", "", Verdict.SHUFFLED, ("raw__offline.events",))
    reader = ModelResult("a", "a.sql", (operator,), unique_id="model.p.a")
    model = Node("model.p.a", "a", "model", "a.sql", depends_on=(node.unique_id,))
    manifest = Manifest({node.unique_id: node, model.unique_id: model})
    for relation, verdict in ((shadow.relation, Verdict.SHUFFLED), (lambda node: node.relation, None)):
        (result,) = with_graph([reader], manifest, relation)
        assert result.inputs == (Parent(node.unique_id, verdict),)


def reached(folder: Path, **output: Any) -> Result:
    """The check of a file on a connection that nobody answers."""
    (folder / "dbt_project.yml").write_text("{name: p, profile: p}")
    target = {"type": "spark", "host": "127.0.0.1", "port": 1, "schema": "s", "connect_retries": 0, **output}
    (folder / "profiles.yml").write_text(json.dumps({"p": {"target": "t", "outputs": {"t": target}}}))
    (folder / "q.sql").write_text("select 1 as a group by 1")
    place = ["--project-dir", str(folder), "--profiles-dir", str(folder), str(folder / "q.sql")]
    return CliRunner().invoke(main, ["check", "--format", "json", *place])


@pytest.mark.parametrize("method", [{"method": "thrift"}, {"method": "http", "token": "x", "cluster": "c"}])
def test_a_server_that_does_not_answer_is_an_error_in_dbt_spark_s_words(
    method: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result = reached(tmp_path, **method)
    # What dbt logs by itself would be among the report.
    assert result.exit_code == 2 and result.stdout == capfd.readouterr().out == ""
    assert "failed to connect" in result.stderr and "Traceback" not in result.stderr


def test_a_driver_that_is_missing_is_an_error_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyodbc", None)
    result = reached(tmp_path, method="odbc", driver="Simba", endpoint="e", token="x")
    assert result.exit_code == 2 and result.stdout == ""
    assert "dbt-spark[ODBC]" in result.stderr and "Traceback" not in result.stderr
