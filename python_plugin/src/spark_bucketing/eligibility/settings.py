"""The settings of a session that decide over plans."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_bucketing.extension.settings import EXTENSION_CLASS

# Settings that reasons read, with Spark's own defaults for the case that nobody knows their values.
DEFAULTS: Mapping[str, str] = {
    "spark.sql.extensions": "",
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.sources.bucketing.enabled": "true",
    "spark.sql.legacy.bucketedTableScan.outputOrdering": "false",
    "spark.sql.bucketing.coalesceBucketsInJoin.enabled": "false",
    "spark.sql.bucketing.coalesceBucketsInJoin.maxBucketRatio": "4",
    "spark.sql.requireAllClusterKeysForCoPartition": "true",
    "spark.sql.hive.convertMetastoreParquet": "true",
    "spark.sql.hive.convertMetastoreOrc": "true",
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.bucketing.enabled": "true",
    "spark.bucketing.read.mergeFiles": "64",
    "spark.bucketing.read.sparkLayout": "true",
    "spark.bucketing.join.alignment": "auto",
}
SETTINGS: tuple[str, ...] = tuple(DEFAULTS)
ORDERING = "spark.sql.legacy.bucketedTableScan.outputOrdering"
ALL_KEYS = "spark.sql.requireAllClusterKeysForCoPartition"
ENABLED = "spark.bucketing.enabled"
SPARK_LAYOUT = "spark.bucketing.read.sparkLayout"

# What SET answers for a setting without a value.
_UNDEFINED = "<undefined>"


@dataclass(frozen=True)
class Settings:
    """Values of settings by name; those that are missing have Spark's default."""

    values: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str) -> str:
        """Value of a setting."""
        value = self.values.get(name, _UNDEFINED)
        return DEFAULTS.get(name, "") if value == _UNDEFINED else value

    def on(self, name: str) -> bool:
        """Whether a setting is true."""
        return self.get(name).strip().lower() == "true"

    def number(self, name: str) -> int:
        """Value of a setting that is a number; Spark's default when it is none."""
        value = self.get(name)
        return int(value if re.fullmatch(r"-?\d+", value) else DEFAULTS[name])

    def changed(self, values: Mapping[str, str]) -> Settings:
        """The same with other values."""
        return Settings({**self.values, **values})

    @property
    def loaded(self) -> bool:
        """Whether the session has the extension, switched on or not."""
        return EXTENSION_CLASS in [name.strip() for name in self.get("spark.sql.extensions").split(",")]

    @property
    def extension(self) -> bool:
        """Whether the extension plans this session's queries."""
        return self.loaded and self.on(ENABLED)
