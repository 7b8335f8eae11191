"""Each rule against its file of cases, and what all rules have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from linted import NOWHERE, fixed, lint, write_manifest
from sqlfluff.utils.testing.rules import RuleTestCase, load_test_cases

from conftest import REPOSITORY
from spark_bucketing.check.reasons import EVERY_REASON

FOLDER = REPOSITORY / "tests" / "cases" / "lint"
NAMES, CASES = load_test_cases(str(FOLDER / "SB*.yml"))
TABLES: list[dict[str, Any]] = yaml.safe_load((FOLDER / "tables.yml").read_text())


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("lint") / "manifest.json"
    write_manifest(file, TABLES)
    return str(file)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_rule_does_what_its_cases_say(case: RuleTestCase, manifest: str) -> None:
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
    # A fix is applied once, and leaves nothing of what it mends.
    assert fixed(mended, manifest) == mended
    assert not case.fix_str or case.rule not in {one.rule_code() for one in lint(mended, manifest)}


def test_every_rule_has_cases_of_both_kinds() -> None:
    from spark_bucketing.sqlfluff_plugin.rules import RULES

    for rule in RULES:
        cases = [case for case in CASES if case.rule == rule.code]
        assert any(case.pass_str for case in cases) and any(case.fail_str for case in cases), rule
        assert bool(rule.is_fix_compatible) == any(case.fix_str for case in cases), rule
        for part in ("**Anti-pattern**", "**Best practice**"):
            assert part in (rule.__doc__ or ""), rule


OWN = {
    *("missing-buckets", "misspelt-key", "partition-column-in-buckets", "merge-without-unique-key", "invalid-config"),
    *("redundant-repartition", "needless-cast"),
}  # fmt: skip


def test_a_rule_is_named_like_the_reason_of_the_check() -> None:
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


@pytest.mark.parametrize("layout", ["spark", "hive", "mixed", "mixed_hive"])
def test_nothing_is_said_of_tpch(tmp_path: Path, layout: str) -> None:
    manifest = _tpch_manifest(tmp_path / "manifest.json", layout)
    found = {
        path.stem: [one.desc() for one in lint(path.read_text(), manifest)] for path in sorted(TPCH.glob("q*.sql"))
    }
    assert {name: said for name, said in found.items() if said} == {}


def test_text_that_is_no_query_is_left_alone(manifest: str) -> None:
    assert lint("{% macro a() %}select 1{% endmacro %}\n", manifest, NOWHERE) == []
