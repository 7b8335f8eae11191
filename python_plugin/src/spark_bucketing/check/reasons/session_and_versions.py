"""Reasons that concern a project as a whole: versions of Spark, settings, the extension."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spark_bucketing.check.candidate_fixes import set_to, switch_extension_on
from spark_bucketing.check.reasons.reason import Explanation, reason
from spark_bucketing.check.session_settings import BUCKETING, CONVERT_METASTORE, RECORDS_PER_FILE, Settings
from spark_bucketing.spec import BucketSpec


@dataclass(frozen=True)
class ProjectFacts:
    """What is known of a project: its session's settings, Spark's version (4.3.0), and its bucketed tables by name."""

    settings: Settings
    spark_version: str
    specs: Mapping[str, BucketSpec]

    @property
    def version(self) -> tuple[int, ...]:
        """The version in numbers."""
        return tuple(map(int, re.findall(r"\d+", self.spark_version)[:3]))

    @property
    def hive(self) -> tuple[str, ...]:
        """Tables of the Hive layout."""
        return tuple(sorted(name for name, spec in self.specs.items() if spec.bucket_hash == "hive"))


@reason("this version of Spark groups a union of bucketed tables wrongly")
def incorrect_results_bug(project: ProjectFacts) -> Iterator[Explanation]:
    """This version of Spark returns wrong rows for bucketed tables.

    **Anti-pattern**

    Spark 4.1.0 to 4.1.3, or 4.2.0: GROUP BY and DISTINCT over a UNION ALL of bucketed tables return groups twice
    (SPARK-59141).

    **Best practice**

    Spark 4.3, 4.2.1 or 4.1.4 and newer.
    """
    version = project.version
    if project.specs and ((4, 1) <= version < (4, 1, 4) or (4, 2) <= version < (4, 2, 1)):
        message = (
            f"Spark {project.spark_version} returns wrong rows for GROUP BY and DISTINCT over a UNION ALL of bucketed "
            "tables (SPARK-59141). Take 4.3, 4.2.1 or 4.1.4."
        )
        yield Explanation(message, level="error")


@reason("this version of Spark is older than 3.5")
def unsupported_spark_version(project: ProjectFacts) -> Iterator[Explanation]:
    """This version of Spark is too old for the package.

    **Anti-pattern**

    Spark 3.4: neither the macros nor the session extension know it.

    **Best practice**

    Spark 4.1 or newer, where SQL scripts swap tables. On 3.5, and on 4.0 without `spark.sql.scripting.enabled=true`, a
    crash between two statements leaves more to the next run.
    """
    if project.version and project.version < (3, 5):
        message = f"Spark {project.spark_version} is too old for the materializations, which need 3.5 or newer."
        yield Explanation(message, level="error")


@reason("a setting disables what bucketed tables rely on")
def incompatible_setting(project: ProjectFacts) -> Iterator[Explanation]:
    """A setting of the session disables what bucketed tables rely on.

    **Anti-pattern**

    `spark.sql.sources.bucketing.enabled=false`; `spark.sql.hive.convertMetastoreParquet=false`, by which Hive's reader
    reads tables; `spark.sql.files.maxRecordsPerFile` above 0, by which a bucket becomes several files.

    **Best practice**

    Leave these settings at their defaults.
    """
    hive_reader = "Hive's own reader reads the Hive layout, and knows no buckets"
    wanted = [(BUCKETING, "true", "Spark ignores all buckets")] if project.specs else []
    wanted += [(name, "true", hive_reader) for name in CONVERT_METASTORE if project.hive]
    wrong = [(name, "false", value, effect) for name, value, effect in wanted if not project.settings.on(name)]
    if project.specs and project.settings.number(RECORDS_PER_FILE) > 0:
        records = project.settings.get(RECORDS_PER_FILE)
        wrong.append((RECORDS_PER_FILE, records, "0", "a bucket is written as several files"))
    for name, value, right, effect in wrong:
        yield Explanation(f"{name}={value}: {effect}.", candidates=(set_to({name: right}),))


@reason("tables of the Hive layout, and no extension to read them as bucketed")
def extension_not_loaded(project: ProjectFacts) -> Iterator[Explanation]:
    """The project has tables of the Hive layout, and the session does not load the extension that reads their buckets.

    **Anti-pattern**

    `bucket_hash='hive'`, the default, on stock Spark.

    **Best practice**

    Load the session extension (`spark-bucketing extension conf`), or take `bucket_hash='spark'`.
    """
    names, settings = project.hive, project.settings
    if not names or settings.extension:
        return
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
    message = (
        f"This session reads {shown}, of the Hive layout, as plain tables: the extension is not "
        f"{'switched on' if settings.loaded else 'loaded'}."
    )
    yield Explanation(message, names, (switch_extension_on(settings),))
