"""Implement `spark-bucketing check`, from the arguments to the report, with facts from the project's graph."""

from __future__ import annotations

import operator
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from spark_bucketing import sql
from spark_bucketing.checks.acceptance import Baseline, accept, allowed_reasons, read_baseline
from spark_bucketing.checks.checked_query import Facts, Setting, Settings
from spark_bucketing.checks.checker import (
    Checker,
    TimeLimit,
    file_node,
    offline_tasks,
    query_node,
    selectable,
)
from spark_bucketing.checks.reasons import REASONS, project_findings
from spark_bucketing.checks.reasons.project import ProjectFacts
from spark_bucketing.checks.results import (
    Fix,
    ModelResult,
    OperatorResult,
    Parent,
    Report,
    Verdict,
    map_findings,
    worst,
)
from spark_bucketing.checks.stub_tables import StubTables, configured_layout, embedded_planner
from spark_bucketing.checks.verdicts import with_effects
from spark_bucketing.errors import BucketingError, ProfileError, ProjectError
from spark_bucketing.plan.document import TableFacts
from spark_bucketing.plan.planner import Planner
from spark_bucketing.project.dbt import Dbt, Selection, write_session_profile
from spark_bucketing.project.manifest import (
    CatalogTable,
    Manifest,
    Node,
    is_fresh,
    read_catalog,
    read_manifest,
    read_project,
    table_name,
)
from spark_bucketing.project.profile import Place, Target, opened, read_target
from spark_bucketing.spec import BucketSpec
from spark_bucketing.tables.metadata import in_lower_case


@dataclass(frozen=True)
class Artifacts:
    """A project's manifest and catalog."""

    # The manifest with the compiled SQL; empty if no project is checked.
    manifest: Manifest = field(default_factory=lambda: Manifest({}))
    path: Path = Path()  # path of the manifest
    errors: Mapping[str, str] = field(default_factory=dict)  # dbt's errors for nodes that do not compile, by unique id
    catalog: Mapping[str, CatalogTable] = field(default_factory=dict)  # tables by unique id; empty without a catalog


@dataclass(frozen=True)
class CheckRequest:
    """The arguments of a check; paths are absolute."""

    files: tuple[Path, ...] = ()  # SQL files; with files, only explicitly selected models are checked
    selection: Selection = field(default_factory=Selection)  # dbt's --select and --exclude
    place: Place = field(default_factory=Place)  # the project and target
    variables: str = "{}"  # --vars, as YAML
    manifest: Path | None = None  # an existing manifest.json
    compile_anyway: bool = False  # compile even if there is an up-to-date manifest
    offline: bool = False  # plan without the warehouse
    # For offline planning: whether the session extension is loaded; None to follow the target's settings.
    extension: bool | None = None
    baseline: Path | None = None  # a file of accepted findings
    time_limit: float | None = None  # time limit per query in seconds; None for no limit
    session: Any = None  # a session of PySpark to use instead of the target's


@dataclass(frozen=True)
class Project:
    """A dbt project, and the request to check it."""

    target: Target
    request: CheckRequest

    @property
    def wants_extension(self) -> bool:
        """Return whether offline planning loads the session extension."""
        given = self.request.extension
        return Settings(self.target.settings).loaded if given is None else given

    def artifacts(self) -> Artifacts:
        """Find or create the manifest. A live check of SQL files outside the project's directory needs no manifest."""
        request = self.request
        own, theirs = self._folders
        elsewhere = request.files and not any(file.is_relative_to(self.target.project_dir) for file in request.files)
        path, errors = request.manifest, dict[str, str]()
        if elsewhere and not (request.selection or request.offline or path):
            return Artifacts()
        if path is None and not request.compile_anyway:
            existing = (folder / "manifest.json" for folder in (own, theirs))
            path = next((found for found in existing if self._is_fresh(found)), None)
        if path is None:
            errors, path = self._compile(), own / "manifest.json"
        catalog = next((file for folder in (path.parent, theirs) if (file := folder / "catalog.json").exists()), None)
        return Artifacts(read_manifest(path), path, errors, read_catalog(catalog) if catalog else {})

    def select(self, manifest: Path) -> tuple[str, ...]:
        """Return the unique ids of the nodes in a manifest that dbt's selectors choose."""
        return self._dbt(self.target.profiles_dir).select(self.request.selection, manifest)

    def _compile(self) -> dict[str, str]:
        if not self.request.offline:
            return self._dbt(self.target.profiles_dir).compile()
        with tempfile.TemporaryDirectory(prefix="spark-bucketing-") as name:
            write_session_profile(Path(name), self.target.profile, self.target.name, self.target.schema)
            return self._dbt(Path(name)).compile()

    def _is_fresh(self, manifest: Path) -> bool:
        target, request = self.target, self.request
        if not is_fresh(manifest, target.project_dir, target.profiles_dir, request.place.target, request.variables):
            return False
        nodes = read_manifest(manifest).nodes.values()
        return all(node.sql is not None for node in nodes if node.resource_type == "model" and node.language == "sql")

    @property
    def _folders(self) -> tuple[Path, Path]:
        """Return the directories of this command's artifacts, and of dbt's, which `dbt retry` reads."""
        name = os.environ.get("DBT_TARGET_PATH") or read_project(self.target.project_dir).get("target-path") or "target"
        theirs = self.target.project_dir / str(name)
        return theirs / "spark-bucketing", theirs

    def _dbt(self, profiles_dir: Path) -> Dbt:
        request = self.request
        return Dbt(self.target.project_dir, profiles_dir, self._folders[0], request.place.target, request.variables)


OnProgress = Callable[[str, int, int], None]
"""Takes the current step, the number of finished models, and the total number of models."""


def check_project(request: CheckRequest, on_progress: OnProgress = lambda *_: None) -> Report:
    """Check models or SQL files."""
    # Fail before any slow step.
    baseline = read_baseline(request.baseline) if request.baseline else {}
    target = read_target(request.place, request.variables)
    project = Project(target, request)
    here = Path.cwd()
    # dbt changes to the project directory, and relative paths in a profile start there.
    with in_folder(target.project_dir):
        on_progress("starting Spark" if request.offline or target.method == "session" else "connecting", 0, 0)
        with open_planner(project) as planner:
            report = _checked(project, planner, baseline, on_progress)
    return replace(report, folder=_folder_from(here, target.project_dir))


def check_queries(statements: sql.Statements, queries: Mapping[str, str], time_limit: float | None = None) -> Report:
    """Check queries without a project, by name."""
    planner = Planner(f"live ({statements.kind})", statements.rows)
    plan, facts = planner.require_extension(), Facts(planner)
    settings = Settings(plan.settings)
    checker = Checker(planner, settings, facts, limit=TimeLimit(time_limit))
    found = checker.run([(query_node(name, text), True) for name, text in queries.items()])
    results = with_effects(found.models, checker.queries if checker.limit.is_free() else [])
    specs = {table.name.lower(): table.spec for table in facts.known() if table.spec}
    findings = project_findings(ProjectFacts(settings, plan.spark_version, specs, (), True))
    label = f"{planner.label}, Spark {plan.spark_version}"
    return accept(replace(found, models=tuple(results), project=findings, planner=label), {}, {})


def _checked(project: Project, planner: Planner, baseline: Baseline, on_progress: OnProgress) -> Report:
    settings, version = planner_settings_of(project, planner)
    on_progress("compiling the project", 0, 0)
    artifacts = project.artifacts()
    manifest = artifacts.manifest
    checked = _checked_nodes(project, artifacts)
    known = {reason.slug for reason in REASONS}
    allowed = {node.unique_id: allowed_reasons(node.meta, node.name, known) for node in checked}
    folder, is_offline = project.target.project_dir, project.request.offline
    stub = StubTables(planner, manifest, artifacts.catalog, folder) if is_offline else None
    tasks = offline_tasks(checked, manifest) if stub else [(node, True) for node in checked]
    done = iter(range(len(tasks)))
    facts = Facts(planner)
    limit = TimeLimit(project.request.time_limit)
    checker = Checker(planner, settings, facts, stub, limit, folder, artifacts.errors)
    found = checker.run(tasks, lambda name: on_progress(name, next(done), len(tasks)))
    on_progress("testing fixes on other queries", 0, 0)
    results = with_effects(found.models, [] if found.unfinished or not checker.limit.is_free() else checker.queries)
    configured = _configured(manifest, checked)
    results = with_configured(results, configured, facts.known())
    # The configs provide the specs of tables that check did not look up in the metastore.
    built = {table.name.lower(): table.spec for table in facts.known()}
    specs = {name: spec for name, spec in {**configured, **built}.items() if spec}
    # In an offline check, some stub tables have different names.
    relation = stub.relation if stub else operator.attrgetter("relation")
    undescribed = tuple(stub.undescribed.values()) if stub else ()
    report = replace(
        found,
        models=tuple(with_graph(results, manifest, relation, configured)),
        project=project_findings(ProjectFacts(settings, version, specs, undescribed, bool(artifacts.catalog))),
        planner=f"{planner.label}, Spark {version}",
        about=about(project.target),
    )
    return accept(report, allowed, baseline)


def about(target: Target) -> Mapping[str, str]:
    """Return the facts that identify a report: project, target, Git commit and date."""
    git = shutil.which("git")
    command = [git or "git", "-C", str(target.project_dir), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() if git else ""
    name = str(read_project(target.project_dir).get("name", ""))
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    found = {"project": name, "target": f"{target.profile}.{target.name}", "commit": commit, "date": date}
    return {key: value for key, value in found.items() if value}


def _checked_nodes(project: Project, artifacts: Artifacts) -> Sequence[Node]:
    """Return the nodes whose queries are checked, parents first, and each only once."""
    request, manifest = project.request, artifacts.manifest
    files = [file_node(file, project.target.project_dir, manifest) for file in request.files]
    names = () if files and not request.selection else selectable(manifest)
    if request.selection:
        chosen = set(project.select(artifacts.path))
        names = tuple(name for name in names if name in chosen)
        if not names and not files:
            raise ProjectError(
                "No model or snapshot matches the options `--select` and `--exclude`.",
                found="no node with a query",
                expected="at least one model or snapshot",
                instead="use other selectors; `dbt ls` lists the nodes that they select",
            )
    nodes = [*(manifest.nodes[name] for name in names), *files]
    return list({node.unique_id or node.path: node for node in nodes}.values())


def _folder_from(start: Path, project_dir: Path) -> str:
    """Return the project directory's path relative to the starting directory, or an empty path if they are the same."""
    folder = project_dir.as_posix()
    # The directory may be on another Windows drive.
    with suppress(ValueError):
        folder = Path(os.path.relpath(project_dir, start)).as_posix()
    return "" if project_dir == start else folder


def _configured(manifest: Manifest, checked: Iterable[Node]) -> dict[str, BucketSpec]:
    """Return the configured bucket specs of the checked models and of their parents, by table."""
    specs: dict[str, BucketSpec | None] = {}
    for name in manifest.with_ancestors(node.unique_id for node in checked):
        node = manifest.nodes[name]
        try:
            specs[table_name(node.relation or "")] = configured_layout(node.config, node.materialized, node.name).spec
        # dbt reports this error when it builds the model.
        except BucketingError:
            continue
    return {name: spec for name, spec in specs.items() if spec}


def planner_settings_of(project: Project, planner: Planner) -> tuple[Settings, str]:
    """Return the session's settings, offline with the target's extensions, and the version of Spark."""
    plan = planner.require_extension()
    settings = Settings(plan.settings)
    if project.request.offline and not project.wants_extension:
        settings = settings.changed({Setting.EXTENSIONS: project.target.settings.get(Setting.EXTENSIONS, "")})
    return settings, plan.spark_version


@contextmanager
def open_planner(project: Project) -> Iterator[Planner]:
    """Open the planner of a project's target, or of its stub tables."""
    target = project.target
    if project.request.offline:
        with embedded_planner(target.settings, project.wants_extension, target.schema) as offline:
            yield offline
        return
    with opened(target, session=project.request.session) as statements:
        planner = Planner(f"live ({statements.kind})", statements.rows)
        before = str(planner.rows("select current_database() as name")[0]["name"])
        # Only SQL files depend on the current schema, because models use qualified names.
        try:
            planner.rows(f"use {sql.name(target.schema)}")
        except BucketingError as error:
            if project.request.files:
                raise ProfileError(
                    f"The schema `{target.schema}` of target `{target.name}` cannot be used.",
                    found=error,
                    expected=f"the schema of the tables that `{project.request.files[0].name}` reads",
                    instead="run `dbt run` to create it, or choose another `--target`",
                ) from error
        try:
            yield planner
        finally:
            planner.rows(f"use {sql.name(before)}")


@contextmanager
def in_folder(path: Path) -> Iterator[None]:
    """Use this directory as the working directory inside the block."""
    before = Path.cwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


_TABLES = ("bucket_spec", "column_type", "rewrite_files")
_ADVICE = {
    "seed": "is a seed, which dbt cannot bucket. Build a bucketed model that reads it, and join that model.",
    "snapshot": "is a snapshot, which dbt cannot bucket. Build a bucketed model that reads it, and join that model.",
    "source": "is a source. Its owner must change it. Alternatively, build a bucketed model that reads it, and join "
    "that model.",
}


def with_configured(
    results: Iterable[ModelResult], specs: Mapping[str, BucketSpec], known: Iterable[TableFacts]
) -> tuple[ModelResult, ...]:
    """Add a note to the results for each table that has buckets in its config but was built without them."""
    plain = {facts.name for facts in known if facts.spec is None}
    unbuilt = {name: specs[table_name(name)] for name in plain if table_name(name) in specs}

    def noted(operator: OperatorResult) -> OperatorResult:
        texts = [f"{name} is configured with {unbuilt[name].buckets}" for name in operator.tables if name in unbuilt]
        note = f"{' and '.join(texts)}, not built yet"
        if texts and operator.verdict is Verdict.NOT_BUCKETED:
            return replace(operator, description=f"{operator.description} ({note})")
        findings = tuple(replace(found, message=f"{found.message} ({note}.)") for found in operator.findings)
        return replace(operator, findings=findings) if texts else operator

    return tuple(replace(result, operators=tuple(map(noted, result.operators))) for result in results)


def with_graph(
    results: Iterable[ModelResult],
    manifest: Manifest,
    relation: Callable[[Node], str | None],
    configured: Mapping[str, BucketSpec],
) -> Iterator[ModelResult]:
    """Add to each result the verdicts on reading its parents, and notes to fixes.

    A fix gets a note if no dbt config controls its table. If the config already has the bucket spec of a fix, the fix
    is to run dbt.
    """
    tables = _tables_behind(manifest, relation)
    others = {name: node.resource_type for name, node in manifest.nodes.items() if node.resource_type in _ADVICE}
    kinds = {table: kind for name, kind in others.items() for table in tables[name]}
    models = {table_name(relation(node) or ""): node.name for node in manifest.nodes.values()}
    owned = partial(_owned, kinds=kinds, configured=configured, models=models)
    for result in results:
        parents = manifest.nodes[result.unique_id].depends_on if result.unique_id else ()
        inputs = tuple(
            Parent(parent, worst(one for one in result.operators if not behind.isdisjoint(_names(one.tables))))
            for parent, behind in ((parent, tables.get(parent, frozenset())) for parent in parents)
        )
        yield map_findings(
            replace(result, inputs=inputs),
            lambda found: replace(found.finding, fixes=tuple(map(owned, found.finding.fixes))),
        )


def _owned(fix: Fix, kinds: Mapping[str, str], configured: Mapping[str, BucketSpec], models: Mapping[str, str]) -> Fix:
    text, table = fix.text, table_name(fix.table or "")
    if fix.kind == "bucket_spec" and fix.spec and _has(configured.get(table), fix.spec) and table in models:
        run = (
            f"Run `dbt run --full-refresh --select {models[table]}` to build {fix.table}, whose config already has "
            f"{fix.spec.buckets}."
        )
        text = text.replace(f"Bucket {fix.table} with {fix.spec.config}.", run)
    if fix.kind in _TABLES and table in kinds:
        text += f" {fix.table} {_ADVICE[kinds[table]]}"
    return replace(fix, text=text, also=tuple(_owned(other, kinds, configured, models) for other in fix.also))


def _has(configured: BucketSpec | None, spec: BucketSpec) -> bool:
    """Return whether a configured bucket spec has the buckets of another spec, and at least its sort order."""
    here, there = in_lower_case(configured), in_lower_case(spec)
    if here is None or there is None:
        return False
    return replace(here, sort_columns=here.sort_columns[: len(there.sort_columns)]) == there


def _names(tables: Iterable[str]) -> Iterator[str]:
    for table in tables:
        yield table.lower()
        # dbt omits the name of the session catalog, which may differ from Spark's default.
        yield ".".join(table.lower().split(".")[-2:])


def _tables_behind(manifest: Manifest, relation: Callable[[Node], str | None]) -> Mapping[str, frozenset[str]]:
    """Return the tables that a plan shows for each node: its table, or the tables below a view or ephemeral model."""
    tables: dict[str, frozenset[str]] = {}
    for unique_id in manifest.order:
        node = manifest.nodes[unique_id]
        if node.materialized in ("view", "ephemeral"):
            tables[unique_id] = frozenset().union(*(tables.get(parent, ()) for parent in node.depends_on))
        else:
            named = relation(node)
            tables[unique_id] = frozenset([table_name(named)] if named else [])
    return tables
