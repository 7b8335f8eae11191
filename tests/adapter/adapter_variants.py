"""Adapt dbt test classes to Spark where their SQL, types or strategies are specific to another database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from dbt.tests.adapter.aliases import fixtures as aliases
from dbt.tests.adapter.aliases.test_aliases import BaseAliases
from dbt.tests.adapter.constraints import fixtures as constraints
from dbt.tests.adapter.constraints.test_constraints import (
    BaseConstraintsColumnsEqual,
    BaseConstraintsRollback,
)
from dbt.tests.adapter.empty import _models as empty
from dbt.tests.adapter.empty.test_empty import BaseTestEmpty
from dbt.tests.adapter.hooks.test_model_hooks import BaseTestPrePost
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates
from dbt.tests.adapter.persist_docs.test_persist_docs import BasePersistDocs
from dbt.tests.adapter.store_test_failures_tests import fixtures as failures
from dbt.tests.adapter.store_test_failures_tests.test_store_test_failures import BaseStoreTestFailures
from dbt.tests.util import relation_from_name, run_dbt

AS_TABLE = "{{ config(materialized='table') }}\n"


class MergePredicates(BaseIncrementalPredicates):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        predicates = ["DBT_INTERNAL_DEST.id != 2"]
        return {"models": {"+incremental_predicates": predicates, "+incremental_strategy": "merge"}}


SCHEMA = constraints.model_schema_yml.replace("data_type: text", "data_type: string")


class _ColumnsEqual(BaseConstraintsColumnsEqual):
    # These models have columns in the wrong order, or a wrong column name.
    wrong: tuple[str, str]

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        order, name = self.wrong
        return {"my_model_wrong_order.sql": order, "my_model_wrong_name.sql": name, "constraints_schema.yml": SCHEMA}

    @pytest.fixture(scope="class", autouse=True)
    def models_with_a_bucket_column(self) -> Iterator[None]:
        """Add an id column, because the only column of dbt's models has types that cannot be bucketed."""
        sql = constraints.my_model_data_type_sql.replace("select\n", "select\n  1 as id,\n")
        column = "      - name: id\n        data_type: int\n"
        schema = constraints.model_data_type_schema_yml.replace("columns:\n", f"columns:\n{column}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(constraints, "my_model_data_type_sql", sql)
            patch.setattr(constraints, "model_data_type_schema_yml", schema)
            yield

    @pytest.fixture
    def string_type(self) -> str:
        return "string"

    @pytest.fixture
    def int_type(self) -> str:
        return "int"

    @pytest.fixture
    def data_types(self, int_type: str, string_type: str) -> list[list[str]]:
        same = [("'1'", string_type), ("true", "boolean"), ("cast('2013-11-03' as date)", "date")]
        same += [("timestamp '2013-11-03 00:00:00'", "timestamp"), ("cast(1.5 as double)", "double")]
        return [["1", int_type, int_type]] + [[value, of, of] for value, of in same]


class TableConstraintsColumnsEqual(_ColumnsEqual):
    wrong = (constraints.my_model_wrong_order_sql, constraints.my_model_wrong_name_sql)


class IncrementalConstraintsColumnsEqual(_ColumnsEqual):
    wrong = (constraints.my_model_incremental_wrong_order_sql, constraints.my_model_incremental_wrong_name_sql)


class ConstraintsRollback(BaseConstraintsRollback):
    """A run does not load rows that violate a constraint, and keeps the previous table."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"my_model.sql": constraints.my_model_sql, "constraints_schema.yml": SCHEMA}

    @pytest.fixture(scope="class")
    def expected_error_messages(self) -> list[str]:
        return ["a row violates the constraint 'not_null' of id"]


class Empty(BaseTestEmpty):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "model_input.sql": empty.model_input_sql,
            "ephemeral_model_input.sql": empty.ephemeral_model_input_sql,
            "model.sql": AS_TABLE + empty.model_sql,
            "sources.yml": empty.schema_sources_yml,
        }


class StoreTestFailures(BaseStoreTestFailures):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "fine_model.sql": AS_TABLE + failures.models__fine_model,
            "fine_model_but_with_a_no_good_very_long_name.sql": failures.models__file_model_but_with_a_no_good_very_long_name,
            "problematic_model.sql": AS_TABLE + failures.models__problematic_model,
        }


class Hooks(BaseTestPrePost):
    """A model's hooks run in order; pre-hooks see the table before its replacement, post-hooks see the new table."""

    @pytest.fixture(scope="class", autouse=True)
    def setUp(self, project: Any) -> None:
        project.run_sql(f"create table {project.test_schema}.hooked (moment string, seen bigint)")

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        hook = "insert into {{ target.schema }}.hooked select '%s', %s"
        before = hook % ("before", "{{ 'count(*) from ' ~ this if spark_bucketing.is_incremental() else '-1' }}")
        after = hook % ("after", "count(*) from {{ this }}")
        sql = "{{ config(materialized='incremental', incremental_strategy='append') }} select 1 as id"
        properties = f"""
            models:
              - name: hooks
                config:
                  pre_hook: ["{before}"]
                  post_hook: ["{after}", "{hook % ("last", "0")}"]
        """
        return {"hooks.sql": sql, "schema.yml": properties}

    def test_hooks_run_before_and_after_the_replacement(self, project: Any) -> None:
        for _ in range(2):
            run_dbt(["run"])
        relation = relation_from_name(project.adapter, "hooked")
        found = project.run_sql(f"select moment, seen from {relation}", fetch="all")
        expected = [("before", -1), ("after", 1), ("last", 0), ("before", 1), ("after", 2), ("last", 0)]
        assert sorted(tuple(row) for row in found) == sorted(expected)


class Aliases(BaseAliases):
    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        cast = "{% macro string_literal(s) %}cast('{{ s }}' as string){% endmacro %}"
        return {"cast.sql": cast, "expect_value.sql": aliases.MACROS__EXPECT_VALUE_SQL}


class PersistDocs(BasePersistDocs):
    """Check comments in Spark's tables, because dbt-spark does not copy them to catalog.json."""

    def test_has_comments_pglike(self, project: Any) -> None:
        relation = relation_from_name(project.adapter, "table_model")
        found = {row[0]: row[-1] or "" for row in project.run_sql(f"describe {relation}", fetch="all")}
        assert found["id"].startswith("id Column description"), found
        self._assert_common_comments(found["id"])
        described = {row[0]: row[1] for row in project.run_sql(f"describe extended {relation}", fetch="all")}
        assert described["Comment"].startswith("Table model description")
        self._assert_common_comments(described["Comment"])
