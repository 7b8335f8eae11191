"""The session settings that affect plans."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_bucketing.extension.settings import EXTENSION_CLASS

EXTENSIONS = "spark.sql.extensions"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
BUCKETING = "spark.sql.sources.bucketing.enabled"
ORDERING = "spark.sql.legacy.bucketedTableScan.outputOrdering"
COALESCE = "spark.sql.bucketing.coalesceBucketsInJoin.enabled"
COALESCE_RATIO = "spark.sql.bucketing.coalesceBucketsInJoin.maxBucketRatio"
ALL_KEYS = "spark.sql.requireAllClusterKeysForCoPartition"
RECORDS_PER_FILE = "spark.sql.files.maxRecordsPerFile"
CONVERT_METASTORE = ("spark.sql.hive.convertMetastoreParquet", "spark.sql.hive.convertMetastoreOrc")
ENABLED = "spark.bucketing.enabled"
DISTRIBUTE = "spark.bucketing.write.distribute"
MERGE_FILES = "spark.bucketing.read.mergeFiles"
SPARK_LAYOUT = "spark.bucketing.read.sparkLayout"
ALIGNMENT = "spark.bucketing.join.alignment"
UNION = "spark.bucketing.union.enabled"

# Settings that the reasons use, with Spark's defaults for unknown values.
DEFAULTS: Mapping[str, str] = {
    EXTENSIONS: "",
    SHUFFLE_PARTITIONS: "200",
    BUCKETING: "true",
    ORDERING: "false",
    COALESCE: "false",
    COALESCE_RATIO: "4",
    ALL_KEYS: "true",
    RECORDS_PER_FILE: "0",
    **dict.fromkeys(CONVERT_METASTORE, "true"),
    ENABLED: "true",
    MERGE_FILES: "64",
    SPARK_LAYOUT: "true",
    DISTRIBUTE: "true",
    ALIGNMENT: "auto",
}


@dataclass(frozen=True)
class Settings:
    """The values of settings by name, with Spark's default value for a setting that is not set."""

    values: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str) -> str:
        """Return the value of a setting."""
        return self.values.get(name, DEFAULTS.get(name, ""))

    def on(self, name: str) -> bool:
        """Return whether a setting is true."""
        return self.get(name).strip().lower() == "true"

    def number(self, name: str) -> int:
        """Return the value of a numeric setting, or Spark's default if the value is not a number."""
        value = self.get(name)
        return int(value if re.fullmatch(r"-?\d+", value) else DEFAULTS[name])

    def changed(self, values: Mapping[str, str]) -> Settings:
        """Return a copy in which these settings have other values."""
        return Settings({**self.values, **values})

    @property
    def loaded(self) -> bool:
        """Return whether the session has loaded the extension, even if it is disabled."""
        return EXTENSION_CLASS in [name.strip() for name in self.get(EXTENSIONS).split(",")]

    @property
    def extension(self) -> bool:
        """Return whether the session has loaded the extension, and it is enabled."""
        return self.loaded and self.on(ENABLED)
