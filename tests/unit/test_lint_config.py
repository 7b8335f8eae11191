"""Tests that the config rules report the same errors as a run, before the run."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from sqlfluff_models import fixed, lint, model, slugs

from conftest import REPOSITORY

CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    (REPOSITORY / "tests" / "cases" / "shared" / "query_config.yml").read_text()
)
SQL = (
    "select 1 as k, 'a' as v, 2 as ds, timestamp'2024-01-01 00:00:00' as ts, map('a', 1) as m, cast('x' as binary) as b"
)


@pytest.mark.parametrize("name", CASES)
def test_contradictions_between_query_and_config_are_reported_before_the_run(name: str) -> None:
    case = CASES[name]
    assert slugs(model(case.get("sql", SQL), case["config"])) == case["rules"]


def test_misspelled_keys_are_fixed_in_one_pass() -> None:
    source = (
        "{{ config(\n    materialized='bucketed_table',\n    cluster_by=['k'], num_buckets=4\n) }}\n\nselect 1 as k\n"
    )
    mended = fixed(source)
    assert mended == source.replace("cluster_by", "clustered_by").replace("num_buckets", "buckets")
    assert fixed(mended) == mended and lint(mended) == []


def test_misspelled_key_next_to_the_correct_key_has_no_fix() -> None:
    source = model(
        "select 1 as k", {"materialized": "bucketed_table", "clustered_by": ["k"], "bucket": 4, "buckets": 8}
    )
    assert slugs(source) == ["misspelled-key"] and fixed(source) == source


def test_violation_is_reported_at_its_key() -> None:
    source = "{{ config(materialized='bucketed_table',\n  clustered_by=['k'],\n  buckets='8') }}\nselect 1 as k\n"
    assert [(one.line_no, one.line_pos) for one in lint(source)] == [(3, 3)]
