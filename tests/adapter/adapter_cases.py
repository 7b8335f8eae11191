"""Which of dbt's tests for adapters are run, and what comes out differently, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_incremental import BaseIncremental
from dbt.tests.adapter.basic.test_table_materialization import BaseTableMaterialization
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import BaseIncrementalOnSchemaChange
from dbt.tests.adapter.incremental.test_incremental_unique_id import BaseIncrementalUniqueKey


@dataclass(frozen=True)
class Case:
    """A class of dbt's tests, what its models are bucketed by, whether it is run always, and config of incremental models."""

    base: type
    by: str = "id"
    quick: bool = False
    incremental: dict[str, Any] = field(default_factory=dict)


MERGE = {"incremental_strategy": "merge"}

CASES = [
    Case(BaseSimpleMaterializations, quick=True),
    Case(BaseIncremental, quick=True),
    Case(BaseTableMaterialization, quick=True),
    Case(BaseIncrementalUniqueKey, by="state", incremental=MERGE),
    Case(BaseIncrementalOnSchemaChange),
]

STOCK_APPENDS = "dbt-spark merges only into Delta, Iceberg and Hudi; in Parquet it appends, whatever the key"
FOUND_EARLIER = "a key that does not exist is found in the first run, before anything is written, and dbt's test expects that to pass"

SEEDED_NONE = "dbt-spark's session method seeds an empty field as the text None, and dbt's test expects a null"

# What fails: (class, test, "stock" or "bucketed"): why.
DIFFERENCES: dict[tuple[str, str, str], str] = {
    ("BaseIncrementalUniqueKey", "test__bad_unique_key", "stock"): STOCK_APPENDS,
    ("BaseIncrementalUniqueKey", "test__bad_unique_key_list", "stock"): STOCK_APPENDS,
    ("BaseIncrementalUniqueKey", "test__bad_unique_key", "bucketed"): FOUND_EARLIER,
    ("BaseIncrementalUniqueKey", "test__bad_unique_key_list", "bucketed"): FOUND_EARLIER,
    **{
        ("BaseIncrementalUniqueKey", f"test__{name}", kind): reason
        for name in (
            "one_unique_key",
            "unary_unique_key_list",
            "duplicated_unary_unique_key_list",
            "trinary_unique_key_list",
        )
        for kind, reason in (("stock", STOCK_APPENDS), ("bucketed", SEEDED_NONE))
    },
}
