"""Tools that inspect bucketed Spark tables: their files, and how Spark's planner uses their buckets."""

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
