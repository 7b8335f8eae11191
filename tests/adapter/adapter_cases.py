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

FOUND_EARLIER = "a key that does not exist is found in the first run, before anything is written, and dbt's test expects that to pass"

SEEDED_NONE = "dbt-spark's session method seeds an empty field as the text None, and dbt's test expects a null"

# What fails: (class, test): why.
DIFFERENCES: dict[tuple[str, str], str] = {
    **{("BaseIncrementalUniqueKey", f"test__bad_unique_key{end}"): FOUND_EARLIER for end in ("", "_list")},
    **{
        ("BaseIncrementalUniqueKey", f"test__{name}"): SEEDED_NONE
        for name in (
            "one_unique_key",
            *(f"{number}_unique_key_list" for number in ("unary", "duplicated_unary", "trinary")),
        )
    },
}
