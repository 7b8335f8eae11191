"""List the dbt adapter tests to run, and the known differences from dbt's expectations with their reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import adapter_variants as variants
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_ephemeral import BaseEphemeral
from dbt.tests.adapter.basic.test_incremental import BaseIncremental, BaseIncrementalNotSchemaChange
from dbt.tests.adapter.basic.test_table_materialization import BaseTableMaterialization
from dbt.tests.adapter.concurrency.test_concurrency import BaseConcurrency
from dbt.tests.adapter.incremental.test_incremental_merge_exclude_columns import BaseMergeExcludeColumns
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import BaseIncrementalOnSchemaChange
from dbt.tests.adapter.incremental.test_incremental_unique_id import BaseIncrementalUniqueKey
from dbt.tests.adapter.persist_docs.test_persist_docs import (
    BasePersistDocsAllColumnsMissing,
    BasePersistDocsColumnMissing,
    BasePersistDocsQuotedColumnCaseSensitive,
)
from dbt.tests.adapter.sample_mode.test_sample_mode import BaseSampleModeTest
from dbt.tests.adapter.simple_copy.test_simple_copy import SimpleCopyBase


@dataclass(frozen=True)
class Case:
    """A dbt test class with its models' bucket column, and config for incremental models."""

    base: type
    by: str = "id"
    incremental: dict[str, Any] = field(default_factory=dict)


MERGE = {"incremental_strategy": "merge"}

CASES = [
    Case(BaseSimpleMaterializations),
    Case(BaseIncremental),
    Case(BaseTableMaterialization),
    Case(BaseIncrementalUniqueKey, by="state", incremental=MERGE),
    Case(BaseIncrementalOnSchemaChange),
    Case(BaseIncrementalNotSchemaChange, by="user_id_current_time", incremental=MERGE),
    Case(BaseMergeExcludeColumns),
    Case(BaseEphemeral),
    Case(BaseConcurrency),
    Case(BasePersistDocsColumnMissing),
    Case(BasePersistDocsAllColumnsMissing),
    Case(BasePersistDocsQuotedColumnCaseSensitive, by="mycol"),
    Case(BaseSampleModeTest),
    Case(variants.Aliases, by="tablename"),
    Case(SimpleCopyBase),
    Case(variants.MergePredicates),
    Case(variants.TableConstraintsColumnsEqual, by="id"),
    Case(variants.IncrementalConstraintsColumnsEqual, by="id"),
    Case(variants.ConstraintsRollback),
    Case(variants.Empty),
    Case(variants.StoreTestFailures),
    Case(variants.Hooks),
    Case(variants.PersistDocs),
]

STOCK_APPENDS = (
    "dbt-spark supports merge only for Delta, Iceberg and Hudi; for Parquet, it appends rows and ignores the key"
)
FOUND_EARLIER = "the first run already rejects a missing key, but dbt's test expects this run to pass"
KEEPS_COLUMNS = "dbt-spark neither drops columns of a Parquet table nor fills columns that are no longer in the model"
REFUSES_MERGE = "dbt-spark supports merge only for Delta, Iceberg and Hudi, and refuses it for Parquet"
NO_COMMENTS = "dbt-spark omits column comments from catalog.json"
NO_CONSTRAINTS = "dbt-spark adds constraints after writing the table, which Parquet tables do not support"
NO_COLUMN_COMMENTS = "dbt-spark persists column comments only for Delta, Iceberg and Hudi tables"
NO_VIEWS = "Spark supports materialized views only in pipelines"

# Expected failures: (class, test, "stock" or "bucketed"): reason.
DIFFERENCES: dict[tuple[str, str, str], str] = {
    ("BaseIncrementalUniqueKey", "test__bad_unique_key", "bucketed"): FOUND_EARLIER,
    ("BaseIncrementalUniqueKey", "test__bad_unique_key_list", "bucketed"): FOUND_EARLIER,
    ("BaseMergeExcludeColumns", "test__merge_exclude_columns", "stock"): REFUSES_MERGE,
    ("BasePersistDocsColumnMissing", "test_missing_column", "stock"): NO_COMMENTS,
    ("BasePersistDocsColumnMissing", "test_missing_column", "bucketed"): NO_COMMENTS,
    ("BaseIncrementalOnSchemaChange", "test_run_incremental_append_new_columns", "stock"): KEEPS_COLUMNS,
    ("BaseIncrementalOnSchemaChange", "test_run_incremental_sync_all_columns", "stock"): KEEPS_COLUMNS,
    **{
        ("SimpleCopyBase", "test_simple_copy_with_materialized_views", kind): NO_VIEWS for kind in ("stock", "bucketed")
    },
    ("ConstraintsRollback", "test__constraints_enforcement_rollback", "stock"): NO_CONSTRAINTS,
    ("TableConstraintsColumnsEqual", "test__constraints_wrong_column_order", "stock"): NO_CONSTRAINTS,
    ("IncrementalConstraintsColumnsEqual", "test__constraints_wrong_column_order", "stock"): NO_CONSTRAINTS,
    ("PersistDocs", "test_has_comments_pglike", "stock"): NO_COLUMN_COMMENTS,
    ("MergePredicates", "test__incremental_predicates", "stock"): REFUSES_MERGE,
    **{
        ("BaseIncrementalUniqueKey", f"test__{name}", "stock"): STOCK_APPENDS
        for name in (
            "bad_unique_key",
            "bad_unique_key_list",
            "one_unique_key",
            "unary_unique_key_list",
            "duplicated_unary_unique_key_list",
            "trinary_unique_key_list",
        )
    },
}
