"""Which of dbt's tests for adapters are run, and what comes out differently, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dbt.tests.adapter.aliases.test_aliases import BaseAliases
from dbt.tests.adapter.basic.test_adapter_methods import BaseAdapterMethod
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_ephemeral import BaseEphemeral
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.basic.test_incremental import (
    BaseIncremental,
    BaseIncrementalBadStrategy,
    BaseIncrementalNotSchemaChange,
)
from dbt.tests.adapter.basic.test_table_materialization import BaseTableMaterialization
from dbt.tests.adapter.concurrency.test_concurrency import BaseConcurrency
from dbt.tests.adapter.empty.test_empty import BaseTestEmpty
from dbt.tests.adapter.ephemeral.test_ephemeral import BaseEphemeralMulti
from dbt.tests.adapter.incremental.test_incremental_merge_exclude_columns import BaseMergeExcludeColumns
from dbt.tests.adapter.incremental.test_incremental_microbatch import BaseMicrobatch
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import BaseIncrementalOnSchemaChange
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates
from dbt.tests.adapter.incremental.test_incremental_unique_id import BaseIncrementalUniqueKey
from dbt.tests.adapter.persist_docs.test_persist_docs import BasePersistDocs
from dbt.tests.adapter.relations.test_changing_relation_type import BaseChangeRelationTypeValidator
from dbt.tests.adapter.simple_copy.test_simple_copy import SimpleCopyBase


@dataclass(frozen=True)
class Case:
    """A class of dbt's tests.

    Args:
        base: the class.
        by: what its models are bucketed by.
        quick: whether it is run with every change.
        incremental: config of its incremental models.
    """

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
    Case(BaseMergeExcludeColumns),
    Case(BaseIncrementalPredicates, incremental=MERGE),
    Case(BaseMicrobatch),
    Case(BasePersistDocs),
    Case(BaseChangeRelationTypeValidator),
    Case(BaseTestEmpty),
    Case(BaseIncrementalNotSchemaChange, by="user_id_current_time"),
    Case(BaseIncrementalBadStrategy),
    Case(BaseAdapterMethod),
    Case(BaseEphemeral),
    Case(BaseEphemeralMulti),
    Case(BaseGenericTests),
    Case(BaseAliases, by="tablename"),
    Case(BaseConcurrency),
    Case(SimpleCopyBase),
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
