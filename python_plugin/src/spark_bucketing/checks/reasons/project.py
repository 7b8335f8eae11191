"""Reasons that concern the whole project: Spark versions, settings and the extension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spark_bucketing.checks.changes import set_to, switch_extension_on
from spark_bucketing.checks.checked_query import Setting, Settings
from spark_bucketing.checks.reasons.reason import Reason, explained, reason
from spark_bucketing.checks.results import Finding
from spark_bucketing.spec import BucketSpec
from spark_bucketing.tables.warehouse import SETTINGS
from spark_bucketing.units import has_union_bug, some, version_numbers


@dataclass(frozen=True)
class ProjectFacts:
    """The facts about a project: the session's settings, Spark's version, and the bucketed tables by name."""

    settings: Settings
    spark_version: str
    specs: Mapping[str, BucketSpec]
    undescribed: tuple[str, ...] = ()  # sources without known columns, in an offline check
    has_catalog: bool = True  # whether an offline check has a catalog.json

    @property
    def version(self) -> tuple[int, ...]:
        """Return the Spark version as a tuple of numbers."""
        return version_numbers(self.spark_version)

    @property
    def hive(self) -> tuple[str, ...]:
        """Return the names of the tables in the Hive layout."""
        return tuple(sorted(name for name, spec in self.specs.items() if spec.in_hive_layout))


@reason()
def incorrect_results_bug(project: ProjectFacts) -> Iterator[Finding]:
    """This Spark version returns wrong results for a grouped union of bucketed tables."""
    if project.specs and has_union_bug(project.version):
        message = (
            f"Spark {project.spark_version} returns wrong rows for GROUP BY and DISTINCT over a UNION ALL of bucketed "
            "tables (SPARK-59141). Upgrade to 4.1.4, 4.2.1 or 4.3."
        )
        yield explained(message, level="error")


@reason()
def unsupported_spark_version(project: ProjectFacts) -> Iterator[Finding]:
    """This Spark version is older than 3.5."""
    if project.version and project.version < (3, 5):
        message = f"Spark {project.spark_version} is too old for the materializations, which require 3.5 or newer."
        yield explained(message, level="error")


@reason()
def incompatible_setting(project: ProjectFacts) -> Iterator[Finding]:
    """A setting disables a feature that bucketed tables require."""
    names = {Setting.BUCKETING} if project.specs else set()
    names |= {Setting.CONVERT_PARQUET, Setting.CONVERT_ORC} if project.hive else set()
    # The extension ignores this setting when it distributes the rows of a write.
    if project.specs and not (project.settings.extension and project.settings.on(Setting.DISTRIBUTE)):
        names.add(Setting.RECORDS_PER_FILE)
    for setting in SETTINGS:
        value = project.settings.get(setting.name).lower()
        if setting.name in names and value and not setting.is_right(value):
            change = set_to({setting.name: setting.right})
            yield explained(f"{setting.name}={value}: {setting.effect}.", changes=(change,), level="warning")


@reason()
def extension_not_loaded(project: ProjectFacts) -> Iterator[Finding]:
    """The project has tables in the Hive layout, but the session does not load the extension that reads them as bucketed."""  # noqa: E501
    names, settings = project.hive, project.settings
    if not names or settings.extension:
        return
    message = (
        f"Spark uses ordinary scans for {some(names, 3)}, which are in the Hive layout, because the extension is not "
        f"{'enabled' if settings.loaded else 'loaded'}. Runs do not seal these tables."
    )
    yield explained(message, names, (switch_extension_on(settings),), "warning")


@reason()
def unknown_columns(project: ProjectFacts) -> Iterator[Finding]:
    """An offline check does not know the columns of some sources, so it cannot plan queries that read them."""
    if project.undescribed:
        why = "catalog.json does not contain them" if project.has_catalog else "there is no catalog.json"
        yield explained(
            f"The columns of {some(project.undescribed, 3)} are unknown, because {why}. Run `dbt docs generate`, or "
            "add the `data_type` of each column to their YAML.",
            level="note",
        )


PROJECT_REASONS = tuple(found for found in list(globals().values()) if isinstance(found, Reason))
