"""Tests that the macros, Python and the sqlfluff rules give the same results for all config cases and bucket columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from file_plan import file_config
from hypothesis import given, settings
from hypothesis import strategies as st
from macros import CompilerError, Macros
from sqlfluff.core import SQLLintError
from sqlfluff.utils.testing.rules import RuleTestCase, load_test_cases
from sqlfluff_models import NOWHERE, fixed, lint, model, slugs, write_manifest

from conftest import REPOSITORY
from spark_bucketing.checks.stub_tables import configured_layout
from spark_bucketing.config.schema import BUCKET_TYPES, KEYS, MATERIALIZATIONS, RULES, base_type
from spark_bucketing.config.validation import UNKNOWN, Config, validate, validated
from spark_bucketing.errors import ProjectError
from spark_bucketing.spec import VERSION_OF_HASH
from spark_bucketing.units import SIZE_PATTERN, parse_size

SHARED = REPOSITORY / "tests" / "cases" / "shared"
CASES: dict[str, dict[str, Any]] = yaml.safe_load((SHARED / "config.yml").read_text())
TYPES = yaml.safe_load((SHARED / "bucket_types.yml").read_text())
# Types that every layout refuses, each for a different reason.
PLAIN_REFUSED = ("float", "double", "void")


def of_macros(config: dict[str, Any]) -> dict[str, Any] | str:
    """Return the values of model_config(), or its error."""
    return result(lambda: Macros({"name": "m", "config": config}).model_config())


def of_python(config: dict[str, Any]) -> dict[str, Any] | str:
    return result(lambda: validated(config, "m"))


def result(call: Callable[[], dict[str, Any]]) -> dict[str, Any] | str:
    try:
        return call()
    except (CompilerError, ProjectError) as error:
        return str(error)


@pytest.mark.parametrize("name", CASES)
def test_macros_python_and_lint_agree_with_the_case(name: str) -> None:
    case = CASES[name]
    found = of_macros(case["config"])
    assert found == of_python(case["config"])
    linted = slugs(model("select 1 as k", case["config"]))
    assert linted == case.get("rules", [] if "values" in case else ["invalid-config"])
    if "values" in case:
        assert isinstance(found, dict), found
        assert {key: found[key] for key in case["values"]} == case["values"]
        return
    for part in ["found:", "expected:", "instead:", *case["message"]]:
        assert part in str(found)
    assert "model `m`" in str(found).lower()


def test_key_of_another_adapter_beside_the_correct_key_is_a_warning() -> None:
    macros = Macros({"name": "m", "config": CASES["similar_key_of_another_adapter"]["config"]})
    macros.model_config()
    (warning,) = macros.exceptions.warnings
    assert "`m` has the key cluster_by=['v'] besides `clustered_by`" in warning and "for another adapter" in warning


VALUES = st.one_of(
    st.sampled_from([None, "", "k", "v", ["k"], ["k", "K"], [], [1], {}, {"a": "b"}, {"path": 1}, True, 0, 1, 64, 2.5]),
    st.sampled_from(sorted({choice for key in KEYS.values() for choice in (*key.choices, *key.aliases)})),
    st.sampled_from(["8", "256MiB", "3iB", "1e9", "ref('a')", "2024-01-01", "v = 'D'", "a{b}", -1, 10**9]),
)
KEY_NAMES = st.sampled_from([*KEYS, "files", "bucket", "sroted_by", "owner", "num-files"])


@settings(max_examples=150)
@given(
    kind=st.sampled_from(MATERIALIZATIONS),
    config=st.dictionaries(KEY_NAMES, VALUES, max_size=6),
    complete=st.booleans(),
)
def test_macros_and_python_agree_on_random_configs(kind: str, config: dict[str, Any], complete: bool) -> None:
    needed = {"clustered_by": ["id"], "buckets": 4} if kind.startswith("bucketed") else {"rows_per_file": 4}
    given = {"materialized": kind, **(needed if complete else {}), **config}
    assert of_macros(given) == of_python(given)


@settings(max_examples=100)
@given(text=st.one_of(st.from_regex(SIZE_PATTERN, fullmatch=True), st.text("0123456789.eE_KMGTPiB ", max_size=8)))
def test_macros_and_python_parse_the_same_sizes(text: str) -> None:
    try:
        expected = parse_size(text)
    except ValueError:
        expected = None
    assert Macros({}).parsed_size(text) == expected


def test_unknown_values_are_not_violations() -> None:
    for case in CASES.values():
        for key in case["config"]:
            _, violations = validate(Config({**case["config"], key: UNKNOWN}))
            assert key not in {one.key for one in violations if one.rule != "misspelled-key"}, (case, key)


def test_every_key_and_every_rule_has_a_case() -> None:
    found = [one for case in CASES.values() for one in validate(Config(case["config"]))[1]]
    assert {one.key for one in found} >= {key for key, spec in KEYS.items() if spec.type != "any"}
    rules = {(rule.key, rule.expected) for rule in RULES if "{" not in rule.expected}
    assert {(one.key, one.expected) for one in found} >= rules
    assert {case["config"]["materialized"] for case in CASES.values()} == set(MATERIALIZATIONS)


@pytest.mark.parametrize("wrong", [{"buckets": "8"}, {"bucket_hash": "md5"}, {"sorted_by": [1]}])
def test_check_rejects_the_same_configs_as_a_run(wrong: dict[str, Any]) -> None:
    config = {"clustered_by": ["k"], "buckets": 8, **wrong}
    with pytest.raises(ProjectError, match="Model `m` has an invalid") as error:
        configured_layout(config, "bucketed_table", "m")
    assert str(error.value) == of_macros({**config, "materialized": "bucketed_table"})


@pytest.mark.parametrize("bucket_hash", BUCKET_TYPES)
@pytest.mark.parametrize("case", TYPES, ids=lambda case: case["type"])
def test_macros_and_python_refuse_the_same_types_of_bucket_columns(case: dict[str, Any], bucket_hash: Any) -> None:
    macros, column = Macros({"name": "m", "config": {}}), {"name": "k", "type": case["type"]}
    validate, hashes = macros.validate_bucket_type, macros.config_schema()["hashes"]
    assert hashes.keys() == BUCKET_TYPES.keys() == {*VERSION_OF_HASH, "spark"}
    accepted = case["spark" if bucket_hash == "spark" else "hive"]
    for types in (BUCKET_TYPES[bucket_hash], hashes[bucket_hash]["types"]):
        assert (base_type(case["type"]) in types) == accepted
    if accepted:
        validate(column, bucket_hash)
        return
    with pytest.raises(CompilerError, match=r"Model `m` has an invalid `clustered_by`\.\n  found:    k ") as error:
        validate(column, bucket_hash)
    # The Spark layout is a remedy only where it accepts the type.
    assert ("or bucket_hash='spark'" in str(error.value)) == case["spark"]
    assert ("with bucket_hash='" in str(error.value)) == (bucket_hash != "spark" and case["type"] not in PLAIN_REFUSED)


@pytest.mark.parametrize(
    ("materialized", "given", "expected"),
    [("bucketed_table", None, "hive"), ("bucketed_table", "hive2", "hive2"), ("table", None, "spark"), ("table", "hive", "hive")],
)  # fmt: skip
def test_generic_test_expects_the_configured_hash(materialized: str, given: str | None, expected: str) -> None:
    config = {"clustered_by": ["k"], "buckets": 8, "materialized": materialized}
    macros = Macros({"attached_node": "m"})
    macros._context["graph"] = {"nodes": {"m": {"name": "m", "config": config}}}
    config |= {"bucket_hash": given} if given else {}
    assert macros.configured_layout(None)["bucket_hash"] == expected
    # An unknown hash is an error, and never the Spark hash.
    config["bucket_hash"] = "murmur3"
    with pytest.raises(CompilerError, match="found:    murmur3"):
        macros.configured_layout(None)


def test_options_override_the_number_of_files_of_any_model() -> None:
    config = {"clustered_by": ["k"], "buckets": "x", "num_files": 3, "materialized": "table", "file_format": "delta"}
    planned = file_config(config, {"target_file_size": 7}, "m")
    assert (planned["target_file_size"], planned["num_files"], planned["file_strategy"]) == (7, None, "exact")
    with pytest.raises(ProjectError, match="Model `m` has an invalid `num_files`"):
        file_config(config, {"num_files": 0}, "m")


def test_too_many_write_tasks_are_refused() -> None:
    layout = {"file_strategy": "by_column_salted", "partition_by": [], "scale_factor": 3}
    layout |= {"file_count": {"setting": "rows_per_file", "value": 1}}
    message = r"1, which results in 33,334 files, and scale_factor=3\n +expected: at most 100,000"
    with pytest.raises(CompilerError, match=message):
        Macros({"name": "m"}).write_distribution(33334, layout)


LINT_NAMES, LINT_CASES = load_test_cases(str(REPOSITORY / "tests" / "cases" / "lint" / "SB*.yml"))
PAGE = (REPOSITORY / "docs" / "reference" / "lint-rules.md").read_text()
COLUMN_TYPES = {"k": "bigint", "v": "string", "ds": "date", "event_at": "timestamp", "n": "integer"}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Create a dbt project without models."""
    (tmp_path / "models").mkdir()
    (tmp_path / "dbt_project.yml").write_text("name: shop")
    return tmp_path


def lint_in(shop: Path, text: str, *, manifest: bool = True) -> list[SQLLintError]:
    """Lint the text of the model `m` with the project's manifest."""
    return lint(text, str(shop / "manifest.json") if manifest else None, str(shop / "models" / "m.sql"))


@pytest.mark.parametrize("case", LINT_CASES, ids=LINT_NAMES)
def test_rule_gives_the_expected_results_for_its_cases(case: RuleTestCase, shop: Path) -> None:
    columns = {name: {"name": name, "data_type": kind} for name, kind in COLUMN_TYPES.items()}
    write_manifest(shop / "manifest.json", columns=columns, contract={"enforced": True})
    manifest, path = str(shop / "manifest.json"), str(shop / "models" / "m.sql")
    text = case.pass_str or case.fail_str or ""
    found = [one for one in lint(text, manifest, path) if one.rule_code() == case.rule]
    if case.pass_str:
        assert found == []
        return
    assert found
    if case.violations:
        expected: Any = [(place["start_line_no"], place["start_line_pos"]) for place in case.violations]
        assert [(one.line_no, one.line_pos) for one in found] == expected
    mended = fixed(text, manifest, path)
    assert mended == (case.fix_str or text)
    # Applying the fix once resolves the violation.
    assert fixed(mended, manifest, path) == mended
    assert not case.fix_str or case.rule not in {one.rule_code() for one in lint(mended, manifest, path)}


def test_every_rule_has_passing_and_failing_cases() -> None:
    from spark_bucketing.sqlfluff_plugin.rules import RULES

    for rule in RULES:
        cases = [case for case in LINT_CASES if case.rule == rule.code]
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
    # A violation in YAML names its place.
    config["cluster_by"] = config.pop("clustered_by")
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
