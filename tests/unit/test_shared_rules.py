"""Tests of the rules that the macros, Python and the session extension share, with the same cases for all of them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from macros import CompilerError, Macros

from conftest import REPOSITORY
from spark_bucketing.config.schema import BUCKET_TYPES, base_type
from spark_bucketing.spec import VERSION_OF_HASH, are_compatible

TYPES = yaml.safe_load((REPOSITORY / "tests" / "cases" / "shared" / "bucket_types.yml").read_text())
# Types that every layout refuses, each for a different reason.
PLAIN_REFUSED = ("float", "double", "void")


@pytest.mark.parametrize("case", TYPES, ids=lambda case: case["type"])
def test_macros_and_python_accept_the_same_types_of_bucket_columns(case: dict[str, Any]) -> None:
    of_macros = {name: each["types"] for name, each in Macros({}).config_schema()["hashes"].items()}
    assert set(of_macros) == {*VERSION_OF_HASH, "spark"}
    for bucket_hash, types in BUCKET_TYPES.items():
        expected = case["spark" if bucket_hash == "spark" else "hive"]
        assert (base_type(case["type"]) in types) == (base_type(case["type"]) in of_macros[bucket_hash]) == expected


@pytest.mark.parametrize("bucket_hash", BUCKET_TYPES)
@pytest.mark.parametrize("case", TYPES, ids=lambda case: case["type"])
def test_run_refuses_other_types_of_bucket_columns(case: dict[str, Any], bucket_hash: str) -> None:
    validate = Macros({"name": "m", "config": {}}).validate_bucket_type
    column = {"name": "k", "type": case["type"]}
    if case["spark" if bucket_hash == "spark" else "hive"]:
        validate(column, bucket_hash)
        return
    with pytest.raises(CompilerError, match=r"Model `m` has an invalid `clustered_by`\.\n  found:    k ") as error:
        validate(column, bucket_hash)
    # The Spark layout is a remedy only where it accepts the type.
    assert ("or bucket_hash='spark'" in str(error.value)) == case["spark"]
    assert ("with bucket_hash='" in str(error.value)) == (bucket_hash != "spark" and case["type"] not in PLAIN_REFUSED)


@pytest.mark.parametrize(
    ("one", "other", "compatible"), [(8, 8, True), (8, 16, True), (24, 8, True), (8, 12, False), (1, 7, True)]
)
def test_numbers_of_buckets_are_compatible_if_one_is_a_multiple(one: int, other: int, compatible: bool) -> None:
    assert are_compatible(one, other) == are_compatible(other, one) == compatible


def expected_hash(config: dict[str, Any]) -> Any:
    """Return the hash that the generic test bucket_spec_matches_config expects for a model with this config."""
    node = {"name": "m", "config": {"clustered_by": ["k"], "buckets": 8, **config}}
    macros = Macros({"attached_node": "m"})
    macros._context["graph"] = {"nodes": {"m": node}}
    return macros.configured_layout(None)["bucket_hash"]


@pytest.mark.parametrize(
    ("config", "bucket_hash"),
    [
        ({"materialized": "bucketed_table"}, "hive"),
        ({"materialized": "bucketed_table", "bucket_hash": "hive2"}, "hive2"),
        ({"materialized": "table"}, "spark"),
        ({"materialized": "table", "bucket_hash": "hive"}, "hive"),
    ],
)
def test_expected_hash_is_the_configured_hash(config: dict[str, Any], bucket_hash: str) -> None:
    assert expected_hash(config) == bucket_hash


@pytest.mark.parametrize("materialized", ["bucketed_table", "table"])
def test_unknown_hash_is_an_error_and_never_the_spark_hash(materialized: str) -> None:
    with pytest.raises(CompilerError, match="found:    murmur3"):
        expected_hash({"materialized": materialized, "bucket_hash": "murmur3"})
