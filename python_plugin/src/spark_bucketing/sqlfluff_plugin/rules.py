"""The lint rules for the config of a model, which docs/reference/lint-rules.md describes.

Each rule examines a whole file, and reports the violations that have its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sqlfluff.core.parser import BaseSegment, PositionMarker, RawSegment, SourceFix
from sqlfluff.core.rules import BaseRule, LintFix, LintResult, RuleContext
from sqlfluff.core.rules.crawlers import BaseCrawler, RootOnlyCrawler

from spark_bucketing.config.validation import Config, Violation, violations
from spark_bucketing.edits.sql_config import ConfigCalls
from spark_bucketing.sqlfluff_plugin.project_files import LintedProject, project_of

if TYPE_CHECKING:
    from sqlfluff.core.templaters import TemplatedFile


@dataclass(frozen=True)
class Model:
    """The config in one file, and its violations."""

    config: Config
    calls: ConfigCalls
    violations: Sequence[Violation]


# sqlfluff runs one rule after another on the same file.
@lru_cache(maxsize=4)
def _examine(project: LintedProject, path: Path | None, source: str) -> Model:
    config, calls = project.config(path, source)
    return Model(config, calls, tuple(violations(config, project.contract(path))))


class BucketRule:
    """A mixin for all rules, because sqlfluff treats every subclass of BaseRule as a rule."""

    name: str
    aliases: tuple[str, ...]
    manifest: str
    groups: tuple[str, ...] = ("all", "spark_bucketing")
    config_keywords: list[str] = ["manifest"]  # noqa: RUF012  (sqlfluff's type)
    crawl_behaviour: BaseCrawler = RootOnlyCrawler()
    # Users write this code by hand, so report problems in templated code too. config() renders to nothing.
    targets_templated = True
    template_safe_fixes = True

    def __init_subclass__(cls) -> None:
        """Let users select a rule by its slug, too."""
        super().__init_subclass__()
        cls.aliases = (cls.slug(),)

    @classmethod
    def get_config_ref(cls) -> str:
        """Return the section [sqlfluff:rules:spark_bucketing], whose settings all rules share."""
        return "spark_bucketing"

    @classmethod
    def slug(cls) -> str:
        """Return the rule's slug, which `check` also uses for the reason of the same name."""
        return cls.name.rpartition(".")[2].replace("_", "-")

    def _eval(self, context: RuleContext) -> list[LintResult]:
        file = context.templated_file
        if file is None:
            return []
        project = project_of(context.path, self.manifest)
        model = _examine(project, context.path, file.source_str)
        found = [violation for violation in model.violations if violation.rule == self.slug()]
        fixes = _config_fixes(model, [(f.key, f.meant) for f in found if f.meant], context.segment) if found else []
        results = []
        for violation in found:
            setting = model.calls.settings.get(violation.key)
            place = setting.whole if setting else model.calls.call or slice(0, 0)
            elsewhere = " The YAML sets this key." if not setting and violation.key in model.config.values else ""
            at = _at_source(place, context.segment, file)
            results.append(LintResult(at, fixes=fixes, description=violation.sentence + elsewhere))
            # One segment contains all keys of a call, so one edit fixes them all.
            fixes = []
        return results


def _at_source(place: slice, root: BaseSegment, file: TemplatedFile) -> RawSegment:
    """Return an empty segment at the given position in the source."""
    behind = next(
        (raw for raw in root.raw_segments if raw.pos_marker and raw.pos_marker.source_slice.stop > place.start), None
    )
    start = behind.pos_marker.templated_slice.start if behind and behind.pos_marker else 0
    return RawSegment("", PositionMarker(place, slice(start, start), file))


def _config_fixes(model: Model, keys: list[tuple[str, str]], root: BaseSegment) -> list[LintFix]:
    """Return fixes for misspelled keys, unless this file also sets the correctly spelled key."""
    settings = model.calls.settings
    renamed = [(settings[key].key, meant) for key, meant in keys if key in settings and model.config[meant] is None]
    wanted = {meant for _, meant in keys}
    if not renamed or len(wanted) < len(keys):
        return []
    first = renamed[0][0].start
    for segment in root.raw_segments:
        at = segment.pos_marker
        if at and at.source_slice.start <= first < at.source_slice.stop:
            edits = [SourceFix(meant, place, at.templated_slice) for place, meant in renamed]
            return [] if segment.source_fixes else [LintFix.replace(segment, [segment.edit(source_fixes=edits)])]
    return []


# The rules by the last part of their names, in the order of their codes.
_SUMMARIES = {
    "missing_buckets": "A bucketed model has no ``buckets`` or no ``clustered_by``.",
    "misspelled_key": "A config key is misspelled, so nothing reads its value.",
    "partition_column_in_buckets": "A partition column is also a bucket column or a sort column.",
    "unsupported_bucket_column": (
        "A bucket column has a type that Spark cannot hash, or a type for which Spark does not use buckets."
    ),
    "sort_columns_mismatch": "The sort columns do not help joins on the bucket columns.",
    "merge_without_unique_key": "A model with the strategy merge has no ``unique_key``, so every run appends all rows.",
    "invalid_config": "A config value is invalid, so dbt would fail to run the model.",
}


def _rule(number: int, name: str, summary: str) -> type[BaseRule]:
    """Return the class of a rule. sqlfluff reads the code from its name, and the summary from its docstring."""
    values = {
        "name": f"spark_bucketing.{name}",
        "is_fix_compatible": name == "misspelled_key",
        "__doc__": summary,
        # pickle, which several processes of sqlfluff use, finds the class in this module.
        "__module__": __name__,
    }
    return cast("type[BaseRule]", type(BaseRule)(f"Rule_SparkBucketing_SB{number:02}", (BucketRule, BaseRule), values))


RULES = tuple(_rule(number, *rule) for number, rule in enumerate(_SUMMARIES.items(), 1))
globals().update({rule.__name__: rule for rule in RULES})
