"""Implement `spark-bucketing check`, from the command's arguments to its report."""

from __future__ import annotations

import operator
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from spark_bucketing.checks.acceptance import Baseline, accept, allowed_reasons, read_baseline
from spark_bucketing.checks.artifacts import Artifacts, CheckRequest, Project
from spark_bucketing.checks.checked_query import Facts
from spark_bucketing.checks.checker import (
    Checker,
    Subject,
    TimeLimit,
    file_subject,
    model_subject,
    offline_tasks,
    selectable,
)
from spark_bucketing.checks.fixes import with_effects
from spark_bucketing.checks.project_graph import with_configured, with_graph
from spark_bucketing.checks.reasons import REASONS, project_findings
from spark_bucketing.checks.reasons.project import ProjectFacts
from spark_bucketing.checks.results import Report
from spark_bucketing.checks.session_settings import EXTENSIONS, Settings
from spark_bucketing.checks.sql_text import one_statement
from spark_bucketing.checks.stub_tables import StubTables, configured_layout, embedded_planner
from spark_bucketing.errors import BucketingError, ProfileError, ProjectError
from spark_bucketing.plan.planner import Planner, StubPlanner
from spark_bucketing.project.connection import opened
from spark_bucketing.project.freshness import read_project
from spark_bucketing.project.manifest import Manifest, table_name
from spark_bucketing.project.profile import Target, read_target
from spark_bucketing.session import Statements, tuples_of
from spark_bucketing.spec import BucketSpec
from spark_bucketing.tables import sql

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


def check_queries(statements: Statements, queries: Mapping[str, str], time_limit: float | None = None) -> Report:
    """Check queries without a project, by name."""
    planner = Planner(f"live ({statements.kind})", partial(tuples_of, statements))
    plan, facts = planner.require_extension(), Facts(planner)
    settings = Settings(plan.settings)
    checker = Checker(planner, settings, facts, limit=TimeLimit(time_limit))
    found = checker.run([Subject(name, name, one_statement(text), text) for name, text in queries.items()])
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
    subjects = _subjects(project, artifacts)
    known = {reason.slug for reason in REASONS}
    allowed = {
        subject.unique_id: allowed_reasons(manifest.nodes[subject.unique_id].meta, subject.name, known)
        for subject in subjects
        if subject.unique_id
    }
    offline = planner if isinstance(planner, StubPlanner) else None
    stub = StubTables(offline, manifest, artifacts.catalog, project.target.project_dir) if offline else None
    tasks = offline_tasks(subjects, manifest) if stub else list(dict.fromkeys(subjects))
    done = iter(range(len(tasks)))
    facts = Facts(planner)
    checker = Checker(planner, settings, facts, stub, TimeLimit(project.request.time_limit))
    found = checker.run(tasks, lambda name: on_progress(name, next(done), len(tasks)))
    on_progress("testing fixes on other queries", 0, 0)
    results = with_effects(found.models, [] if found.unfinished or not checker.limit.is_free() else checker.queries)
    configured = _configured(manifest, subjects)
    results = with_configured(results, configured, facts.known())
    # The configs provide the specs of tables that check did not look up in the metastore.
    built = {table.name.lower(): table.spec for table in facts.known()}
    specs = {name: spec for name, spec in {**configured, **built}.items() if spec}
    # In an offline check, some stub tables have different names.
    relation = stub.relation if stub else operator.attrgetter("relation")
    report = replace(
        found,
        models=tuple(with_graph(results, manifest, relation, configured)),
        project=project_findings(
            ProjectFacts(
                settings, version, specs, tuple(stub.undescribed.values()) if stub else (), bool(artifacts.catalog)
            )
        ),
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


def _folder_from(start: Path, project_dir: Path) -> str:
    """Return the project directory's path relative to the starting directory, or an empty path if they are the same."""
    if project_dir == start:
        return ""
    try:
        return Path(os.path.relpath(project_dir, start)).as_posix()
    except ValueError:
        # Another Windows drive.
        return project_dir.as_posix()


def _subjects(project: Project, artifacts: Artifacts) -> Sequence[Subject]:
    request, folder = project.request, project.target.project_dir
    manifest, errors = artifacts.manifest, artifacts.errors
    files = [file_subject(file, folder, manifest, errors) for file in request.files]
    if files and not request.selection:
        return files
    names = selectable(manifest)
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
    return [*(model_subject(manifest.nodes[name], folder, errors.get(name)) for name in names), *files]


def _configured(manifest: Manifest, subjects: Sequence[Subject]) -> dict[str, BucketSpec]:
    """Return the configured bucket specs of the checked models and of their parents, by table."""
    specs: dict[str, BucketSpec | None] = {}
    for name in manifest.with_ancestors(subject.unique_id for subject in subjects if subject.unique_id):
        node = manifest.nodes[name]
        try:
            specs[table_name(node.relation or "")] = configured_layout(node.config, node.materialized, node.name).spec
        # dbt reports this error when it builds the model.
        except BucketingError:
            continue
    return {name: spec for name, spec in specs.items() if spec}


def planner_settings_of(project: Project, planner: Planner) -> tuple[Settings, str]:
    """Return the session's settings for the reasons, and the version of Spark.

    Offline, the extension counts as loaded only if the target loads it.
    """
    plan = planner.require_extension()
    settings = Settings(plan.settings)
    if project.request.offline and not project.wants_extension:
        settings = settings.changed({EXTENSIONS: project.target.settings.get(EXTENSIONS, "")})
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
        planner = Planner(f"live ({statements.kind})", partial(tuples_of, statements))
        before = str(planner.rows("select current_database()")[0][0])
        _use(planner, project)
        try:
            yield planner
        finally:
            planner.rows(f"use {sql.name(before)}")


def _use(planner: Planner, project: Project) -> None:
    """Make the target's schema the session's current schema, if it exists.

    Only SQL files depend on this, because models use qualified names.
    """
    target = project.target
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


@contextmanager
def in_folder(path: Path) -> Iterator[None]:
    """Use this directory as the working directory inside the block."""
    before = Path.cwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)
