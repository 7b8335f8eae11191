"""Fixes of tables that no model writes."""

from __future__ import annotations

from spark_bucketing.check.configs import with_owners
from spark_bucketing.check.results import Finding, Fix, ModelResult, OperatorResult, Verdict
from spark_bucketing.project.manifest import Manifest, Node


def bucket(table: str, *also: Fix) -> Fix:
    return Fix("bucket_spec", f"Bucket {table}.", table=table, also=also)


def advised(*fixes: Fix) -> list[str]:
    nodes = [
        Node(f"{kind}.p.{kind}s", f"{kind}s", kind, "", f"`s`.`{kind}s`", kind)
        for kind in ("seed", "snapshot", "source", "model")
    ]
    operator = OperatorResult("join", "", Verdict.SHUFFLED, findings=(Finding("union", "", fixes=fixes),))
    manifest = Manifest({node.unique_id: node for node in nodes})
    (result,) = with_owners([ModelResult("m", "m.sql", (operator,))], manifest, lambda node: node.relation)
    return [fix.text for fix in result.operators[0].findings[0].fixes]


def test_what_dbt_cannot_bucket_is_said() -> None:
    seed, snapshot, source, model = advised(*(bucket(f"s.{name}s") for name in ("seed", "snapshot", "source", "model")))
    assert seed.startswith("Bucket s.seeds. s.seeds is a seed, which dbt does not bucket")
    assert "is a snapshot" in snapshot and "is a source" in source and model == "Bucket s.models."


def test_the_second_table_of_a_fix_counts_too_and_settings_do_not() -> None:
    both, setting = advised(bucket("s.models", bucket("s.seeds")), Fix("setting", "Set a=b."))
    assert "s.seeds is a seed" in both and setting == "Set a=b."
