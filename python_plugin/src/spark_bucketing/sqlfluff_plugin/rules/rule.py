"""Define what all rules have in common.

Each rule examines a whole file, and reports the problems that have its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlfluff.core.parser import BaseSegment, PositionMarker, RawSegment, SourceFix
from sqlfluff.core.rules import LintFix, LintResult, RuleContext
from sqlfluff.core.rules.crawlers import BaseCrawler, RootOnlyCrawler

from spark_bucketing.config.schema import BUCKETED
from spark_bucketing.config.validation import Config
from spark_bucketing.config.values import Violation
from spark_bucketing.sqlfluff_plugin.config_calls import ConfigCalls
from spark_bucketing.sqlfluff_plugin.problems import Fix, Problem
from spark_bucketing.sqlfluff_plugin.project_files import Project, project_of
from spark_bucketing.sqlfluff_plugin.query_analysis import Query
from spark_bucketing.sqlfluff_plugin.violations import violations

if TYPE_CHECKING:
    from sqlfluff.core.templaters import TemplatedFile


@dataclass(frozen=True)
class Model:
    """The config in one file, and all problems in this file."""

    config: Config
    calls: ConfigCalls
    violations: Sequence[Violation]
    problems: Sequence[Problem]


# sqlfluff runs one rule after another on the same file.
@lru_cache(maxsize=4)
def examine(project: Project, path: Path | None, source: str, sql: str) -> Model:
    """Examine a file once for all rules.

    Args:
        project: the project to which the file belongs.
        path: the file's path, or None for text that is not in a file.
        source: the file's text before rendering.
        sql: the rendered text, including the fixes that sqlfluff has applied so far.
    """
    config, calls = project.config(path, source)
    query = Query(sql, project, project.own_table(path), bucketed=config["materialized"] in BUCKETED)
    return Model(config, calls, tuple(violations(config, query.columns)), tuple(query.problems))


class BucketRule:
    """A mixin for all rules.

    The mixin does not extend BaseRule, because sqlfluff treats every subclass of BaseRule as a rule.
    """

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
        model = examine(project, context.path, file.source_str, context.segment.raw)
        return [*self._of_config(model, context.segment, file), *self._of_query(model, context.segment)]

    def _of_config(self, model: Model, root: BaseSegment, file: TemplatedFile) -> Iterator[LintResult]:
        found = [violation for violation in model.violations if violation.rule == self.slug()]
        fixes = _config_fixes(model, [(f.key, f.meant) for f in found if f.meant], root) if found else []
        for violation in found:
            setting = model.calls.settings.get(violation.key)
            place = setting.whole if setting else model.calls.call or slice(0, 0)
            elsewhere = " The YAML sets this key." if not setting and violation.key in model.config.values else ""
            yield LintResult(_at_source(place, root, file), fixes=fixes, description=violation.sentence + elsewhere)
            # One segment contains all keys of a call, so one edit fixes them all.
            fixes = []

    def _of_query(self, model: Model, root: BaseSegment) -> Iterator[LintResult]:
        for problem in model.problems:
            if problem.rule == self.slug():
                segment = _segment_at(root, problem.offset)
                yield LintResult(segment, fixes=_query_fixes(problem.fix, root), description=problem.text)


def _at_source(place: slice, root: BaseSegment, file: TemplatedFile) -> RawSegment:
    """Return an empty segment at the given position in the source."""
    behind = next(
        (raw for raw in root.raw_segments if raw.pos_marker and raw.pos_marker.source_slice.stop > place.start), None
    )
    start = behind.pos_marker.templated_slice.start if behind and behind.pos_marker else 0
    return RawSegment("", PositionMarker(place, slice(start, start), file))


def _config_fixes(model: Model, keys: list[tuple[str, str]], root: BaseSegment) -> list[LintFix]:
    """Return fixes for misspelled keys in this file.

    A key is not fixed if the file also sets the correctly spelled key.
    """
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


def _segment_at(root: BaseSegment, offset: int) -> RawSegment:
    """Return the code segment at the given position of the query."""
    position, last = 0, root.raw_segments[0]
    for raw in root.raw_segments:
        if position > offset and raw.raw:
            break
        last = raw if raw.raw else last
        position += len(raw.raw)
    return last


def _query_fixes(fix: Fix | None, root: BaseSegment) -> list[LintFix]:
    """Return the edits that fix a problem.

    The result is empty if a template generates some of the text to change.
    """
    if fix is None:
        return []
    parts = list(_within(root, 0, fix.whole))
    literal = all(part.pos_marker and part.pos_marker.is_literal() for part in parts)
    if not parts or not literal or sum(len(part.raw) for part in parts) != fix.whole.stop - fix.whole.start:
        return []
    if fix.kept is None:
        return [LintFix.delete(part) for part in parts]
    cast = next((one for one in parts[0].recursive_crawl("function") if one.raw == parts[0].raw), None)
    kept = next(_within(root, 0, fix.kept), None)
    return [LintFix.replace(cast, [kept.copy()])] if cast and kept and len(parts) == 1 else []


def _within(segment: BaseSegment, position: int, place: slice) -> Iterator[BaseSegment]:
    """Yield the largest segments that together make up a range of the query."""
    if not segment.raw or position >= place.stop or position + len(segment.raw) <= place.start:
        return
    if position >= place.start and position + len(segment.raw) <= place.stop:
        yield segment
        return
    for inner in segment.segments:
        yield from _within(inner, position, place)
        position += len(inner.raw)
