"""The lint rules for the config of a model, which docs/reference/lint-rules.md describes.

Each rule examines a whole file, and reports the violations that have its name. A model's config comes from the file
itself and from dbt's manifest. Without a manifest, the project's YAML files tell which other keys may be set.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sqlfluff.core.parser import BaseSegment, PositionMarker, RawSegment, SourceFix
from sqlfluff.core.rules import BaseRule, LintFix, LintResult, RuleContext
from sqlfluff.core.rules.crawlers import BaseCrawler, RootOnlyCrawler

from spark_bucketing.config.validation import Config, Violation, violations
from spark_bucketing.edits.sql_config import ConfigCalls, config_calls
from spark_bucketing.errors import ProjectError
from spark_bucketing.project.manifest import Manifest, Node, read_manifest

if TYPE_CHECKING:
    from sqlfluff.core.templaters import TemplatedFile

# sqlfluff shows the warnings of this logger.
_LOGGER = logging.getLogger("sqlfluff.rules")
_DEFAULT = "target/manifest.json"


class LintedProject:
    """A dbt project, as far as its files describe it."""

    def __init__(self, root: Path | None, manifest: Manifest | None) -> None:
        """Create a project; `root` has dbt_project.yml, and is None outside a project."""
        self.root, self._manifest = root, manifest

    def node(self, path: Path | None) -> Node | None:
        """Return the model of a file, or None if the manifest does not contain it."""
        if path is None or self.root is None or not (file := path.resolve()).is_relative_to(self.root):
            return None
        return self._by_path.get(file.relative_to(self.root).as_posix())

    @cached_property
    def _by_path(self) -> Mapping[str, Node]:
        nodes = self._manifest.nodes.values() if self._manifest else ()
        return {node.path: node for node in nodes if node.resource_type in ("model", "snapshot")}

    @cached_property
    def yaml(self) -> str:
        """Return the text of all YAML files that might configure a model outside the manifest."""
        if self.root is None:
            return ""
        folders = (folder for folder in self.root.iterdir() if folder.is_dir() and not folder.name.startswith("."))
        kept = [folder for folder in folders if folder.name not in ("target", "dbt_packages", "logs")]
        files = [self.root / "dbt_project.yml", *(file for folder in kept for file in folder.rglob("*.y*ml"))]
        return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())


def project_of(path: Path | None, manifest: str | None) -> LintedProject:
    """Return the project to which a file belongs."""
    root = _root(path.resolve().parent if path else Path.cwd())
    if manifest is None:
        return _project(root)
    file = ((root or Path.cwd()) / manifest).resolve()
    try:
        return _project(root, file, file.stat().st_mtime_ns)
    except OSError as error:
        # Do not warn about a file outside a project, which has no manifest.
        if root is not None or manifest != _DEFAULT:
            _warn_once(f"Cannot read the manifest {file} ({error.strerror}). Run `dbt parse` to write it.")
    return _project(root)


@lru_cache(maxsize=8)
def _project(root: Path | None, file: Path | None = None, written: int = 0) -> LintedProject:  # noqa: ARG001  (a cache key)
    manifest = None
    if file:
        try:
            manifest = read_manifest(file)
        except ProjectError as error:
            _warn_once(" ".join(str(error).split()))
    return LintedProject(root, manifest)


@lru_cache(maxsize=512)
def _root(folder: Path) -> Path | None:
    return next((one for one in (folder, *folder.parents) if (one / "dbt_project.yml").is_file()), None)


# Each warning appears once, and not for each linted file.
@lru_cache
def _warn_once(text: str) -> None:
    _LOGGER.warning("spark-bucketing: %s Until then, the rules check only the config in the file itself.", text)


@dataclass(frozen=True)
class Model:
    """The config in one file, and its violations."""

    config: Config
    calls: ConfigCalls
    violations: Sequence[Violation]


# sqlfluff runs one rule after another on the same file.
@lru_cache(maxsize=4)
def _examine(project: LintedProject, path: Path | None, source: str) -> Model:
    calls, node = config_calls(source), project.node(path)
    if node:
        # The file may have changed since dbt wrote the manifest. Keys that it does not set come from the manifest.
        before = config_calls(node.raw_sql)
        others = {key: value for key, value in node.config.items() if key not in before.settings}
        config = Config({**others, **calls.values}, lambda _: not calls.open and not before.open)
    else:
        elsewhere = project.yaml if path is not None else ""
        config = Config(calls.values, lambda key: not calls.open and not re.search(rf"\b{key}\W?\s*:", elsewhere))
    contract = {name.lower(): kind for name, kind in node.columns.items()} if node and node.contracted else None
    return Model(config, calls, tuple(violations(config, contract)))


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
    metaclass: Any = type(BaseRule)
    return cast("type[BaseRule]", metaclass(f"Rule_SparkBucketing_SB{number:02}", (BucketRule, BaseRule), values))


RULES = tuple(_rule(number, *rule) for number, rule in enumerate(_SUMMARIES.items(), 1))
globals().update({rule.__name__: rule for rule in RULES})
