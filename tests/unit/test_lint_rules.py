"""Tests of each rule on its file of cases, and of properties that all rules share."""

from __future__ import annotations

from collections.abc import Iterable
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


def node(name: str, columns: str, **spec: Any) -> dict[str, Any]:
    """Return the entry of a table for the manifest; the table is bucketed if the spec has bucket columns."""
    types = dict(part.strip().split(None, 1) for part in columns.split(";"))
    config = {"materialized": "bucketed_table", **spec} if spec["clustered_by"] else {"materialized": "table"}
    return {"name": name, "columns": types, "config": config}


def findings(files: Iterable[Path], manifest: str) -> dict[str, list[str]]:
    """Return the descriptions of the violations in each file that has any."""
    found = {file.stem: [one.desc() for one in lint(file.read_text(), manifest)] for file in sorted(files)}
    return {name: said for name, said in found.items() if said}


@pytest.mark.parametrize(
    "layout", ["spark", "mixed_hive", *(pytest.param(name, marks=pytest.mark.long) for name in ("hive", "mixed"))]
)
def test_no_findings_in_tpch(tmp_path: Path, layout: str) -> None:
    tpch = REPOSITORY / "tests" / "cases" / "tpch"
    described = yaml.safe_load((tpch / "tables.yml").read_text())
    how = described["layouts"][layout]
    nodes = []
    for name, table in described["tables"].items():
        column, buckets = how["buckets"].get(name, (None, None))
        spec = {"clustered_by": column and [column], "buckets": buckets, "bucket_hash": how["hash"]}
        nodes.append(node(name, table["columns"], **spec))
    write_manifest(tmp_path / "manifest.json", nodes)
    assert findings(tpch.glob("q*.sql"), str(tmp_path / "manifest.json")) == {}


def test_no_findings_in_the_showcase(tmp_path: Path) -> None:
    """Lint the showcase models with the configs in their files."""
    models = list((REPOSITORY / "models").rglob("*.sql"))
    nodes: list[dict[str, Any]] = []
    for file in models:
        kind = "view" if file.parent.name == "staging" else "table"
        config = {"materialized": kind, **config_calls(file.read_text()).values}
        nodes.append({"name": file.stem, "raw_code": file.read_text(), "config": config})
    write_manifest(tmp_path / "manifest.json", nodes)
    assert findings(models, str(tmp_path / "manifest.json")) == {}
    assert sum("bucketed" in str(node["config"]["materialized"]) for node in nodes) > 5


def test_no_findings_where_check_finds_nothing(tmp_path: Path) -> None:
    """Lint queries from the cases of check for which Spark neither shuffles nor sorts a bucketed table."""
    folder = REPOSITORY / "tests" / "cases"
    nodes = []
    for name, table in yaml.safe_load((folder / "tables.yml").read_text()).items():
        by, buckets, bucket_hash = table.get("by"), table.get("buckets"), table.get("hash", "spark")
        nodes.append(node(name, table["columns"], clustered_by=by, buckets=buckets, bucket_hash=bucket_hash))
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


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Create a dbt project without models."""
    (tmp_path / "models").mkdir()
    (tmp_path / "dbt_project.yml").write_text("name: shop")
    return tmp_path


def lint_in(shop: Path, text: str, *, manifest: bool = True) -> list[SQLLintError]:
    """Lint the text of the model `m` with the project's manifest."""
    return lint(text, str(shop / "manifest.json") if manifest else None, str(shop / "models" / "m.sql"))


UNCOUNTED = "{{ config(materialized='bucketed_table', clustered_by=['k']) }}\nselect 1 as k\n"


@pytest.mark.parametrize("text", ["{", '{"metadata": {}}', None])
def test_unreadable_manifest_causes_one_warning(shop: Path, caplog: pytest.LogCaptureFixture, text: str | None) -> None:
    if text is not None:
        (shop / "manifest.json").write_text(text)
    with caplog.at_level("WARNING", "sqlfluff.rules"):
        for _ in range(2):
            assert [one.rule_name() for one in lint_in(shop, UNCOUNTED)] == ["spark_bucketing.missing_buckets"]
    assert len([one for one in caplog.messages if "manifest.json" in one]) == 1


def test_manifest_can_be_disabled(shop: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", "sqlfluff.rules"):
        found = lint_in(shop, UNCOUNTED, manifest=False)
    assert [one.rule_name() for one in found] == ["spark_bucketing.missing_buckets"]
    assert caplog.messages == []


def test_file_overrides_the_config_of_the_manifest(shop: Path) -> None:
    old = "{{ config(buckets=4) }}\nselect 1 as k"
    config = {"materialized": "bucketed_table", "clustered_by": ["k"], "buckets": 4}
    write_manifest(shop / "manifest.json", [{"name": "m", "config": config, "raw_code": old}])
    assert lint_in(shop, old + "\n") == []
    assert [one.rule_name() for one in lint_in(shop, "select 1 as k\n")] == ["spark_bucketing.missing_buckets"]


def test_violation_in_yaml_names_its_place(shop: Path) -> None:
    config = {"materialized": "bucketed_table", "cluster_by": ["k"], "buckets": 4}
    write_manifest(shop / "manifest.json", [{"name": "m", "config": config, "raw_code": "select 1 as k"}])
    [found] = lint_in(shop, "select 1 as k\n")
    assert found.desc().endswith("The YAML sets this key.")


def test_new_model_may_be_configured_in_yaml(shop: Path) -> None:
    (shop / "dbt_project.yml").write_text("name: shop\nmodels: {shop: {+buckets: 64}}")
    assert lint_in(shop, UNCOUNTED) == []


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
