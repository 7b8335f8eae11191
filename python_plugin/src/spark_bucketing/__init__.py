"""Tools that inspect bucketed Spark tables: their files, and how Spark's planner uses their buckets."""

# These subpackages have the names of functions. An import of them after the functions would replace the functions.
import spark_bucketing.advise
import spark_bucketing.check
import spark_bucketing.table  # noqa: F401
from spark_bucketing.api import Result, Table, advise, check, table
from spark_bucketing.errors import (
    BucketingError,
    EventLogError,
    ExtensionError,
    PlanError,
    ProfileError,
    ProjectError,
    SparkError,
    TableError,
)

__all__ = [
    "BucketingError",
    "EventLogError",
    "ExtensionError",
    "PlanError",
    "ProfileError",
    "ProjectError",
    "Result",
    "SparkError",
    "Table",
    "TableError",
    "advise",
    "check",
    "table",
]
