"""What the project's own files add to findings."""

from __future__ import annotations

from spark_bucketing.check.configs import with_configured, with_graph
from spark_bucketing.check.results import Finding, Fix, ModelResult, OperatorResult, Verdict
from spark_bucketing.check.scans import TableFacts
from spark_bucketing.project.manifest import Manifest, Node
from spark_bucketing.spec import BucketSpec

EIGHT = BucketSpec(8, ("k",), ("k",), "hive")
MANIFEST = Manifest(
    {kind: Node(kind, kind, kind, "", f"`s`.`{kind}s`", kind) for kind in ("seed", "snapshot", "source", "model")}
)


def joined(*fixes: Fix) -> ModelResult:
    operator = OperatorResult("join", "", Verdict.SHUFFLED, ("s.t",), findings=(Finding("union", "", fixes=fixes),))
    return ModelResult("m", "m.sql", (operator,))


def bucket(table: str, *also: Fix) -> Fix:
    return Fix("bucket_spec", f"Bucket {table}.", table=table, also=also)


def test_what_dbt_cannot_bucket_is_named_but_for_settings_and_models() -> None:
    fixes = [bucket(f"s.{kind}s") for kind in MANIFEST.nodes]
    fixes += [bucket("s.models", bucket("s.seeds")), Fix("setting", "Set a=b.")]
    (result,) = with_graph([joined(*fixes)], MANIFEST, lambda node: node.relation)
    seed, snapshot, source, model, both, setting = (fix.text for fix in result.operators[0].findings[0].fixes)
    assert seed.startswith("Bucket s.seeds. s.seeds is a seed, which dbt does not bucket")
    assert "is a snapshot" in snapshot and "is a source" in source and "s.seeds is a seed" in both
    assert (model, setting) == ("Bucket s.models.", "Set a=b.")


def test_a_table_that_is_built_without_its_buckets_is_named() -> None:
    (result,) = with_configured([joined()], {"s.t": EIGHT}, [TableFacts("s.t", {})])
    assert "s.t is configured with 8 buckets of k, not built yet" in result.operators[0].findings[0].message
    assert with_configured([joined()], {"s.t": EIGHT}, [TableFacts("s.t", {}, EIGHT)]) == (joined(),)
