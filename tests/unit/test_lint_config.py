"""The config rules report before a run the errors that the run would report."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
import yaml
from sqlfluff_models import fixed, lint, model, slugs

from conftest import REPOSITORY
from spark_bucketing.sqlfluff_plugin.config_keys import ORGANIZED, OTHERS, OURS

CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    (REPOSITORY / "tests" / "cases" / "shared" / "config_errors.yml").read_text()
)
SQL = (
    "select 1 as k, 'a' as v, 2 as ds, timestamp'2024-01-01 00:00:00' as ts, map('a', 1) as m, cast('x' as binary) as b"
)
KEYS = (REPOSITORY / "macros" / "bucketing" / "config" / "validate_config_keys.sql").read_text()


@pytest.mark.parametrize("name", CASES)
def test_config_errors_are_reported_before_the_run(name: str) -> None:
    case = CASES[name]
    assert slugs(model(case.get("sql", SQL), case["config"])) == case["rules"]


def test_keys_match_the_macros() -> None:
    first, second = (
        re.findall(r"dict\.fromkeys\((\[.*?\])", KEYS, re.DOTALL)[0],
        re.findall(r"misspellings = (\{.*?\n  \})", KEYS, re.DOTALL)[0],
    )
    others = re.findall(r"known = misspellings\.keys\(\) \| list \+ (\[.*?\])", KEYS, re.DOTALL)[0]
    with_slips = {key: tuple(slips) for key, slips in ast.literal_eval(second).items()}
    assert with_slips | dict.fromkeys(ast.literal_eval(first), ()) == dict(OURS)
    assert set(ast.literal_eval(others)) == OTHERS
    organized = ast.literal_eval(re.findall(r"keys = (\{.*?\n  \})", KEYS, re.DOTALL)[0])
    shared = ast.literal_eval(re.findall(r"for key in (\[.*?\]) -", KEYS, re.DOTALL)[0])
    own = {key: tuple(slips) for key, slips in organized.items()}
    assert own | {key: OURS[key] for key in shared} == dict(ORGANIZED)


def test_misspelt_keys_are_fixed_in_one_pass() -> None:
    source = (
        "{{ config(\n    materialized='bucketed_table',\n    cluster_by=['k'], num_buckets=4\n) }}\n\nselect 1 as k\n"
    )
    mended = fixed(source)
    assert mended == source.replace("cluster_by", "clustered_by").replace("num_buckets", "buckets")
    assert fixed(mended) == mended and lint(mended) == []


def test_misspelt_key_beside_the_correct_key_has_no_fix() -> None:
    source = model(
        "select 1 as k", {"materialized": "bucketed_table", "clustered_by": ["k"], "bucket": 4, "buckets": 8}
    )
    assert slugs(source) == ["misspelt-key"] and fixed(source) == source


def test_violation_is_reported_at_its_key() -> None:
    source = "{{ config(materialized='bucketed_table',\n  clustered_by=['k'],\n  buckets='8') }}\nselect 1 as k\n"
    assert [(one.line_no, one.line_pos) for one in lint(source)] == [(3, 3)]
