"""What is wrong with a project as a whole: versions of Spark, settings, the extension."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from spark_bucketing.eligibility.changes import switch_extension_on
from spark_bucketing.eligibility.model import Finding, Fix, Verdict
from spark_bucketing.eligibility.settings import Settings
from spark_bucketing.spec import BucketSpec


@dataclass(frozen=True)
class Checked:
    """What is known of a project: its session's settings, Spark's version, and its bucketed tables."""

    settings: Settings
    version: tuple[int, ...]
    specs: Mapping[str, BucketSpec]


class ProjectReason(ABC):
    """Why no model of a project can make use of its layout, or why its results cannot be relied on."""

    slug: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def find(self, project: Checked) -> Iterator[Finding]:
        """The findings, if there are any."""


class WrongRows(ProjectReason):
    """This version of Spark returns wrong rows for bucketed tables.

    **Anti-pattern**

    Spark 4.1.0 to 4.1.3, or 4.2.0: GROUP BY and DISTINCT over a UNION ALL of bucketed tables return groups twice
    (SPARK-59141).

    **Best practice**

    Spark 4.3, 4.2.1 or 4.1.4 and newer.
    """

    slug = "spark-returns-wrong-rows"
    summary = "this version of Spark groups a union of bucketed tables wrongly"

    def find(self, project: Checked) -> Iterator[Finding]:
        """Applies to the versions with that error."""
        version = project.version
        if project.specs and ((4, 1) <= version < (4, 1, 4) or (4, 2) <= version < (4, 2, 1)):
            yield Finding(
                self.slug,
                f"Spark {'.'.join(map(str, version))} returns wrong rows for GROUP BY and DISTINCT over a UNION ALL of "
                "bucketed tables (SPARK-59141). Take 4.3, 4.2.1 or 4.1.4.",
                level="error",
            )


class SparkTooOld(ProjectReason):
    """This version of Spark is too old for the package.

    **Anti-pattern**

    Spark 3: it has no SQL scripts, by which tables are swapped, and no write options in SQL.

    **Best practice**

    Spark 4.3, for which the session extension is written.
    """

    slug = "spark-too-old"
    summary = "this version of Spark is older than 4.0"

    def find(self, project: Checked) -> Iterator[Finding]:
        """Applies to versions below 4."""
        version = project.version
        if version and version < (4,):
            text = f"Spark {'.'.join(map(str, version))} is too old: 4.0 or newer is needed, and 4.3 for the extension."
            yield Finding(self.slug, text, level="error")


class DisablingSetting(ProjectReason):
    """A setting of the session disables what bucketed tables rely on.

    **Anti-pattern**

    `spark.sql.sources.bucketing.enabled=false`; `spark.sql.hive.convertMetastoreParquet=false`, by which Hive's reader
    reads tables; `spark.sql.files.maxRecordsPerFile` above 0, by which a bucket becomes several files.

    **Best practice**

    Leave these settings at their defaults.
    """

    slug = "disabling-setting"
    summary = "a setting disables what bucketed tables rely on"

    def find(self, project: Checked) -> Iterator[Finding]:
        """Applies to each such setting."""
        settings, specs = project.settings, project.specs
        if not specs:
            return
        hive = any(spec.bucket_hash == "hive" for spec in specs.values())
        if not settings.on("spark.sql.sources.bucketing.enabled"):
            yield self._setting("spark.sql.sources.bucketing.enabled", "false", "true", "Spark ignores all buckets")
        for name in ("spark.sql.hive.convertMetastoreParquet", "spark.sql.hive.convertMetastoreOrc"):
            if hive and not settings.on(name):
                yield self._setting(
                    name, "false", "true", "Hive's own reader reads the Hive layout, and knows no buckets"
                )
        if settings.number("spark.sql.files.maxRecordsPerFile") > 0:
            name = "spark.sql.files.maxRecordsPerFile"
            yield self._setting(name, settings.get(name), "0", "a bucket is written as several files")

    def _setting(self, name: str, value: str, wanted: str, effect: str) -> Finding:
        fix = Fix("setting", f"Set {name}={wanted}.", Verdict.SORT_FREE, {name: wanted})
        return Finding(self.slug, f"{name}={value}: {effect}.", level="warning", fixes=(fix,))


class ProjectWithoutExtension(ProjectReason):
    """The project has tables of the Hive layout, and the session does not load the extension that reads their buckets.

    **Anti-pattern**

    `bucket_hash='hive'`, the default, on stock Spark.

    **Best practice**

    Load the session extension (`spark-bucketing extension conf`), or take `bucket_hash='spark'`.
    """

    slug = "project-without-extension"
    summary = "tables of the Hive layout, and no extension to read them as bucketed"

    def find(self, project: Checked) -> Iterator[Finding]:
        """Applies to projects with the Hive layout."""
        settings, specs = project.settings, project.specs
        names = sorted(name for name, spec in specs.items() if spec.bucket_hash == "hive")
        if not names or settings.extension:
            return
        change = switch_extension_on(settings)
        fix = Fix(change.kind, change.text, Verdict.SORT_FREE, change.settings)
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
        yield Finding(
            self.slug,
            f"This session reads {shown}, of the Hive layout, as plain tables: the extension is not "
            f"{'switched on' if settings.loaded else 'loaded'}.",
            tuple(names),
            fixes=(fix,),
        )


PROJECT_RULES: tuple[ProjectReason, ...] = (WrongRows(), SparkTooOld(), DisablingSetting(), ProjectWithoutExtension())


def project_findings(
    settings: Mapping[str, str], spark_version: str, specs: Mapping[str, BucketSpec]
) -> tuple[Finding, ...]:
    """What is wrong with a project as a whole.

    Args:
        settings: values of the session's SETTINGS.
        spark_version: as Spark says it: 4.3.0.
        specs: the project's bucketed tables, by name.
    """
    version = tuple(int(part) for part in re.findall(r"\d+", spark_version)[:3])
    project = Checked(Settings(settings), version, specs)
    return tuple(finding for reason in PROJECT_RULES for finding in reason.find(project))
