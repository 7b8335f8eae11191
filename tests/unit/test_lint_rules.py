"""Tests of each lint rule on its file of cases, and of properties that all rules share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlfluff.core import SQLLintError
from sqlfluff.utils.testing.rules import RuleTestCase, load_test_cases
from sqlfluff_models import NOWHERE, fixed, lint, write_manifest

from conftest import REPOSITORY

NAMES, CASES = load_test_cases(str(REPOSITORY / "tests" / "cases" / "lint" / "SB*.yml"))
PAGE = (REPOSITORY / "docs" / "reference" / "lint-rules.md").read_text()
TYPES = {"k": "bigint", "v": "string", "ds": "date", "event_at": "timestamp", "n": "integer"}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Create a dbt project without models."""
    (tmp_path / "models").mkdir()
    (tmp_path / "dbt_project.yml").write_text("name: shop")
    return tmp_path


def lint_in(shop: Path, text: str, *, manifest: bool = True) -> list[SQLLintError]:
    """Lint the text of the model `m` with the project's manifest."""
    return lint(text, str(shop / "manifest.json") if manifest else None, str(shop / "models" / "m.sql"))


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_rule_gives_the_expected_results_for_its_cases(case: RuleTestCase, shop: Path) -> None:
    columns = {name: {"name": name, "data_type": kind} for name, kind in TYPES.items()}
    write_manifest(shop / "manifest.json", columns=columns, contract={"enforced": True})
    manifest, path = str(shop / "manifest.json"), str(shop / "models" / "m.sql")
    text = case.pass_str or case.fail_str or ""
    found = [one for one in lint(text, manifest, path) if one.rule_code() == case.rule]
    if case.pass_str:
        assert found == []
        return
    assert found
    if case.violations:
        places: Any = case.violations
        assert [(one.line_no, one.line_pos) for one in found] == [
            (p["start_line_no"], p["start_line_pos"]) for p in places
        ]
    mended = fixed(text, manifest, path)
    assert mended == (case.fix_str or text)
    # Applying the fix once resolves the violation.
    assert fixed(mended, manifest, path) == mended
    assert not case.fix_str or case.rule not in {one.rule_code() for one in lint(mended, manifest, path)}


def test_every_rule_has_passing_and_failing_cases() -> None:
    from spark_bucketing.sqlfluff_plugin.rules import RULES

    for rule in RULES:
        cases = [case for case in CASES if case.rule == rule.code]
        assert any(case.pass_str for case in cases) and any(case.fail_str for case in cases), rule
        assert bool(rule.is_fix_compatible) == any(case.fix_str for case in cases), rule
        section = PAGE.partition(f"## {rule.name.rpartition('.')[2]}\n")[2].partition("\n## ")[0]
        assert "**Anti-pattern**" in section and "**Best practice**" in section, rule
        summary = (rule.__doc__ or "").partition("\n")[0].replace("``", "`")
        assert section.strip().startswith(summary) and f"`{rule.code}`" in PAGE and f"`{rule.name}`" in PAGE, rule


UNCOUNTED = "{{ config(materialized='bucketed_table', clustered_by=['k']) }}\nselect 1 as k\n"


@pytest.mark.parametrize(("text", "warnings"), [("{", 1), ('{"metadata": {}}', 1), (None, 1), ("disabled", 0)])
def test_unreadable_manifest_causes_one_warning(
    shop: Path, caplog: pytest.LogCaptureFixture, text: str | None, warnings: int
) -> None:
    if text is not None:
        (shop / "manifest.json").write_text(text)
    with caplog.at_level("WARNING", "sqlfluff.rules"):
        found = [lint_in(shop, UNCOUNTED, manifest=text != "disabled") for _ in range(2)]
    assert [one.rule_name() for of in found for one in of] == ["spark_bucketing.missing_buckets"] * 2
    assert len(caplog.messages) == warnings and all("manifest.json" in one for one in caplog.messages)


def test_file_overrides_the_config_of_the_manifest(shop: Path) -> None:
    old = "{{ config(buckets=4) }}\nselect 1 as k"
    config = {"materialized": "bucketed_table", "clustered_by": ["k"], "buckets": 4}
    write_manifest(shop / "manifest.json", config=config, raw_code=old)
    assert lint_in(shop, old + "\n") == []
    assert [one.rule_name() for one in lint_in(shop, "select 1 as k\n")] == ["spark_bucketing.missing_buckets"]


def test_violation_in_yaml_names_its_place(shop: Path) -> None:
    config = {"materialized": "bucketed_table", "cluster_by": ["k"], "buckets": 4}
    write_manifest(shop / "manifest.json", config=config, raw_code="select 1 as k")
    [found] = lint_in(shop, "select 1 as k\n")
    assert found.desc().endswith("The YAML sets this key.")


def test_new_model_may_be_configured_in_yaml_and_other_models_do_not_matter(shop: Path) -> None:
    write_manifest(shop / "manifest.json", original_file_path="models/other.sql", contract={"enforced": True})
    assert lint_in(shop, UNCOUNTED.replace(") }}", ", buckets=4) }}")) == []
    (shop / "manifest.json").unlink()
    (shop / "dbt_project.yml").write_text("name: shop\nmodels: {shop: {+buckets: 64}}")
    assert lint_in(shop, UNCOUNTED) == []


def test_rules_can_be_disabled_by_code_and_by_name() -> None:
    names = ("SparkBucketing_SB01", "spark_bucketing.missing_buckets", "missing-buckets", "spark_bucketing")
    found = [len(lint(UNCOUNTED.replace("\n", f"  -- noqa: {rule}\n", 1))) for rule in (*names, "SparkBucketing_SB02")]
    assert found == [0, 0, 0, 0, 1]
    # A text without a query has no findings.
    assert lint("{% macro a() %}select 1{% endmacro %}\n", None, NOWHERE) == []
