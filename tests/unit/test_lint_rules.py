"""Tests of each rule on its file of cases, and of properties that all rules share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlfluff.core import SQLLintError
from sqlfluff.utils.testing.rules import RuleTestCase, load_test_cases
from sqlfluff_models import NOWHERE, fixed, lint, linter, write_manifest

from conftest import REPOSITORY
from spark_bucketing.check.reasons import EVERY_REASON
from spark_bucketing.sqlfluff_plugin.config_calls import config_calls
from spark_bucketing.sqlfluff_plugin.project_files import project_of
from spark_bucketing.sqlfluff_plugin.query_analysis import Query

FOLDER = REPOSITORY / "tests" / "cases" / "lint"
NAMES, CASES = load_test_cases(str(FOLDER / "SB*.yml"))
TABLES: list[dict[str, Any]] = yaml.safe_load((FOLDER / "tables.yml").read_text())


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("lint") / "manifest.json"
    write_manifest(file, TABLES)
    return str(file)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_rule_gives_the_expected_results_for_its_cases(case: RuleTestCase, manifest: str) -> None:
    text = case.pass_str or case.fail_str or ""
    found = [one for one in lint(text, manifest) if one.rule_code() == case.rule]
    if case.pass_str:
        assert found == []
        return
    assert found
    if case.violations:
        places: Any = case.violations
        assert [(one.line_no, one.line_pos) for one in found] == [
            (p["start_line_no"], p["start_line_pos"]) for p in places
        ]
    mended = fixed(text, manifest)
    assert mended == (case.fix_str or text)
    # Applying the fix once resolves the violation.
    assert fixed(mended, manifest) == mended
    assert not case.fix_str or case.rule not in {one.rule_code() for one in lint(mended, manifest)}


def test_every_rule_has_passing_and_failing_cases() -> None:
    from spark_bucketing.sqlfluff_plugin.rules import RULES

    for rule in RULES:
        cases = [case for case in CASES if case.rule == rule.code]
        assert any(case.pass_str for case in cases) and any(case.fail_str for case in cases), rule
        assert bool(rule.is_fix_compatible) == any(case.fix_str for case in cases), rule
        for part in ("**Anti-pattern**", "**Best practice**"):
            assert part in (rule.__doc__ or ""), rule


OWN = {
    *("missing-buckets", "misspelled-key", "partition-column-in-buckets", "merge-without-unique-key", "invalid-config"),
    *("redundant-repartition", "needless-cast"),
}  # fmt: skip


def test_rule_names_match_the_reasons_of_check() -> None:
    from spark_bucketing.sqlfluff_plugin.rules import RULES

    slugs = {rule.name.rpartition(".")[2].replace("_", "-") for rule in RULES}
    assert slugs - {reason.slug for reason in EVERY_REASON} == OWN


TPCH = REPOSITORY / "tests" / "cases" / "tpch"
DESCRIBED: dict[str, Any] = yaml.safe_load((TPCH / "tables.yml").read_text())


def _tpch_manifest(file: Path, layout: str) -> str:
    how = DESCRIBED["layouts"][layout]
    nodes = []
    for name, table in DESCRIBED["tables"].items():
        columns = dict(part.split() for part in table["columns"].split(";"))
        column, buckets = how["buckets"].get(name, (None, None))
        config = {
            "materialized": "bucketed_table",
            "clustered_by": [column],
            "buckets": buckets,
            "bucket_hash": how["hash"],
        }
        nodes.append({"name": name, "columns": columns, "config": config if column else {"materialized": "table"}})
    write_manifest(file, nodes)
    return str(file)


@pytest.mark.parametrize(
    "layout", ["spark", "mixed_hive", *(pytest.param(name, marks=pytest.mark.long) for name in ("hive", "mixed"))]
)
def test_no_findings_in_tpch(tmp_path: Path, layout: str) -> None:
    manifest = _tpch_manifest(tmp_path / "manifest.json", layout)
    found = {
        path.stem: [one.desc() for one in lint(path.read_text(), manifest)] for path in sorted(TPCH.glob("q*.sql"))
    }
    assert {name: said for name, said in found.items() if said} == {}


def test_no_findings_in_the_showcase(tmp_path: Path) -> None:
    """Lint the showcase models with the configs in their files."""
    models = sorted((REPOSITORY / "models").rglob("*.sql"))
    nodes: list[dict[str, Any]] = []
    for file in models:
        calls = config_calls(file.read_text())
        kind = "view" if file.parent.name == "staging" else "table"
        nodes.append(
            {"name": file.stem, "raw_code": file.read_text(), "config": {"materialized": kind, **calls.values}}
        )
    write_manifest(tmp_path / "manifest.json", nodes)
    found = {
        file.stem: [one.desc() for one in lint(file.read_text(), str(tmp_path / "manifest.json"))] for file in models
    }
    assert {name: said for name, said in found.items() if said} == {}
    assert sum("bucketed" in str(node["config"]["materialized"]) for node in nodes) > 5


def test_no_findings_where_check_finds_nothing(tmp_path: Path) -> None:
    """Lint queries from the cases of check for which Spark neither shuffles nor sorts a bucketed table."""
    folder = REPOSITORY / "tests" / "cases"
    nodes = []
    for name, table in yaml.safe_load((folder / "tables.yml").read_text()).items():
        columns = dict(part.strip().split(None, 1) for part in table["columns"].split(";"))
        spec = {
            "clustered_by": table.get("by"),
            "buckets": table.get("buckets"),
            "bucket_hash": table.get("hash", "spark"),
        }
        config = {"materialized": "bucketed_table", **spec} if table.get("by") else {"materialized": "table"}
        nodes.append({"name": name, "columns": columns, "config": config})
    write_manifest(tmp_path / "manifest.json", nodes)
    cases = [case for file in sorted(folder.glob("*-*.yml")) for case in yaml.safe_load(file.read_text())]
    clean = {case["sql"] for case in cases if not any(": " in str(operator) for operator in case.get("operators", []))}
    assert len(clean) > 20
    own = linter(str(tmp_path / "manifest.json"))
    found = {
        sql: [one.desc() for one in own.lint_string(sql + "\n", fname=NOWHERE).get_violations(types=SQLLintError)]
        for sql in clean
    }
    assert {sql: said for sql, said in found.items() if said} == {}


@pytest.mark.parametrize("text", ["{", '{"metadata": {}}', None])
def test_unreadable_manifest_causes_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str | None
) -> None:
    (tmp_path / "dbt_project.yml").write_text("name: shop")
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    model = "{{ config(materialized='bucketed_table', clustered_by=['k']) }}\nselect 1 as k\n"
    with caplog.at_level("WARNING", "sqlfluff.rules"):
        for _ in range(2):
            found = lint(model, str(tmp_path / "manifest.json"), str(tmp_path / "models" / "m.sql"))
            assert [one.rule_name() for one in found] == ["spark_bucketing.missing_buckets"]
    assert len([one for one in caplog.messages if "manifest.json" in one]) == 1


def test_manifest_can_be_disabled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "dbt_project.yml").write_text("name: shop")
    model = "{{ config(materialized='bucketed_table', clustered_by=['k']) }}\nselect 1 as k\n"
    with caplog.at_level("WARNING", "sqlfluff.rules"):
        found = lint(model, None, str(tmp_path / "models" / "m.sql"))
    assert [one.rule_name() for one in found] == ["spark_bucketing.missing_buckets"]
    assert caplog.messages == []


def test_file_overrides_the_config_of_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "dbt_project.yml").write_text("name: shop")
    old = "{{ config(buckets=4) }}\nselect 1 as k"
    config = {"materialized": "bucketed_table", "clustered_by": ["k"], "buckets": 4}
    write_manifest(tmp_path / "manifest.json", [{"name": "m", "config": config, "raw_code": old}])
    path, manifest = str(tmp_path / "models" / "m.sql"), str(tmp_path / "manifest.json")
    assert lint(old + "\n", manifest, path) == []
    assert [one.rule_name() for one in lint("select 1 as k\n", manifest, path)] == ["spark_bucketing.missing_buckets"]


def test_violation_in_yaml_names_its_place(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "dbt_project.yml").write_text("name: shop")
    config = {"materialized": "bucketed_table", "cluster_by": ["k"], "buckets": 4}
    write_manifest(tmp_path / "manifest.json", [{"name": "m", "config": config, "raw_code": "select 1 as k"}])
    path, manifest = str(tmp_path / "models" / "m.sql"), str(tmp_path / "manifest.json")
    [found] = lint("select 1 as k\n", manifest, path)
    assert found.desc().endswith("The YAML sets this key.")


def test_new_model_may_be_configured_in_yaml(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "dbt_project.yml").write_text("name: shop\nmodels: {shop: {+buckets: 64}}")
    text = "{{ config(materialized='bucketed_table', clustered_by=['k']) }}\nselect 1 as k\n"
    assert lint(text, "none.json", str(tmp_path / "models" / "new.sql")) == []


def test_query_with_thousands_of_inputs_has_no_findings(manifest: str) -> None:
    assert (
        Query(" union all ".join(["select user_id from clicks"] * 2000), project_of(Path(NOWHERE), manifest)).problems
        == []
    )


def test_rules_can_be_disabled_by_code_and_by_name(manifest: str) -> None:
    text = "select city from shop.names where lower(name) = 'a'"
    for rule in (
        "SparkBucketing_SB08",
        "spark_bucketing.expression_over_key",
        "expression-over-key",
        "spark_bucketing",
    ):
        assert lint(f"{text}  -- noqa: {rule}\n", manifest) == []
    assert len(lint(f"{text}  -- noqa: SparkBucketing_SB09\n", manifest)) == 1


def test_text_without_a_query_has_no_findings(manifest: str) -> None:
    assert lint("{% macro a() %}select 1{% endmacro %}\n", manifest, NOWHERE) == []
