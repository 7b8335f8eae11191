"""Skip tests by Spark version, with the data of the table in docs/reference/versions.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSIONS = ((3, 5), (4, 0), (4, 1), (4, 2), (4, 3))
SPARK = tuple(map(int, pyspark.__version__.split(".")[:2]))

# The names of features in the table, and the first version that has each of them.
SCRIPTS = "A single statement swaps a table, or completes a `merge` that empties partitions"
WRITE_OPTIONS = "A partial overwrite in the Spark layout does not set an option on the table"
PARAMETERS = "Parameters (`:name`, `?`) in `ALTER TABLE ... CLUSTERED BY` and `SEAL BUCKETS`"
COLLATIONS = "Columns with a collation"
WIDER_TYPES = "An ordinary scan of a column that another tool widened (`int` to `bigint`)"
CHECK = "`spark-bucketing check`"
ANCIENT_DAYS = "Writing dates before 1582 to Parquet, by default"
SINCE = {
    SCRIPTS: (4, 1),
    WRITE_OPTIONS: (4, 0),
    PARAMETERS: (4, 1),
    COLLATIONS: (4, 0),
    WIDER_TYPES: (4, 0),
    CHECK: (4, 0),
    ANCIENT_DAYS: (4, 0),
}


def can(feature: str) -> bool:
    """Return whether this process's Spark has a feature, with default settings."""
    return SINCE[feature] <= SPARK


def has_scripts(spark: SparkSession) -> bool:
    """Return whether the session can run SQL scripts; without scripts, dbt sends several statements."""
    return SPARK >= (4, 0) and spark.conf.get("spark.sql.scripting.enabled") == "true"


def _needs(feature: str) -> pytest.MarkDecorator:
    major, minor = SINCE[feature]
    return pytest.mark.skipif(not can(feature), reason=f"Spark {major}.{minor} and newer: {feature}")


needs_scripts = _needs(SCRIPTS)
needs_collations = _needs(COLLATIONS)
needs_sql_parameters = _needs(PARAMETERS)
