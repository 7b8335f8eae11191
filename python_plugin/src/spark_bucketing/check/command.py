"""What `spark-bucketing check` does, from its arguments to a report."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from spark_bucketing.check.acceptance import Baseline, accept, allowed_reasons
from spark_bucketing.check.artifacts import Artifacts, Project
from spark_bucketing.check.baseline import read_baseline
from spark_bucketing.check.ddl import configured_layout
from spark_bucketing.check.facts import Facts, honest_settings, settings_of
from spark_bucketing.check.offline import offline_planner, uses_extension
from spark_bucketing.check.owners import with_owners
from spark_bucketing.check.planner import Planner, SqlPlanner, spark_version
from spark_bucketing.check.run import Subject, run, with_inputs
from spark_bucketing.check.session_planner import SessionPlanner
from spark_bucketing.check.shadow import Shadow
from spark_bucketing.check.subjects import file_subject, live_steps, model_subject, offline_steps, selectable
from spark_bucketing.eligibility import RULES, SETTINGS, project_findings
from spark_bucketing.eligibility.model import Report
from spark_bucketing.errors import BucketingError
from spark_bucketing.project.connection import Connection
from spark_bucketing.project.dbt import Selection
from spark_bucketing.project.manifest import Manifest, table_name
from spark_bucketing.project.profile import Target, read_target
from spark_bucketing.session import open_session
from spark_bucketing.spec import BucketSpec

Tell = Callable[[str, int, int], None]
"""Is told what is at work, how many models are done, and of how many."""


@dataclass(frozen=True)
class Request:
    """The arguments of a check; paths are absolute.

    Args:
        files: files of SQL; with these, no models unless they are selected.
        selection: dbt's --select and --exclude.
        project_dir: folder of dbt_project.yml; None for where dbt looks.
        profiles_dir: folder of profiles.yml; None for where dbt looks.
        target: --target.
        variables: --vars, as YAML.
        manifest: an existing manifest.json.
        compile_anyway: compile even when there is a fresh manifest.
        offline: plan without the warehouse.
        extension: offline, whether the session extension is loaded; None for what the target's settings say.
        baseline: a file of accepted findings.
    """

    files: tuple[Path, ...] = ()
    selection: Selection = field(default_factory=Selection)
    project_dir: Path | None = None
    profiles_dir: Path | None = None
    target: str | None = None
    variables: str = "{}"
    manifest: Path | None = None
    compile_anyway: bool = False
    offline: bool = False
    extension: bool | None = None
    baseline: Path | None = None


def check_project(request: Request, tell: Tell = lambda *_: None) -> Report:
    """Check models or files of SQL.

    Args:
        request: what, and where.
        tell: is told how far it is.

    Raises:
        BucketingError: it could not run.
    """
    # Before anything that takes long.
    baseline = read_baseline(request.baseline) if request.baseline else {}
    target = read_target(request.project_dir, request.profiles_dir, request.target, request.variables)
    project = Project(target, request.target, request.variables, request.offline)
    start = Path.cwd()
    # dbt goes to the project's folder, and relative paths of a profile start there.
    with _folder(target.project_dir):
        tell("starting Spark" if request.offline or target.method == "session" else "connecting", 0, 0)
        with _planner(request, target) as planner:
            report = _checked(request, project, planner, baseline, tell)
    return replace(report, folder=_folder_from(start, target.project_dir))


def _checked(request: Request, project: Project, planner: Planner, baseline: Baseline, tell: Tell) -> Report:
    version = spark_version(planner)
    settings = honest_settings(planner, settings_of(planner, SETTINGS))
    tell("compiling the project", 0, 0)
    artifacts = _artifacts(request, project)
    manifest = artifacts.manifest if artifacts else Manifest({})
    subjects = _subjects(request, project, artifacts)
    known = {rule.slug for rule in RULES}
    allowed = {
        subject.unique_id: allowed_reasons(manifest.nodes[subject.unique_id].meta, subject.name, known)
        for subject in subjects
        if subject.unique_id
    }
    shadow = None
    if isinstance(planner, SessionPlanner) and request.offline and artifacts:
        shadow = Shadow(planner, manifest, artifacts.catalog, project.target.project_dir)
    steps = offline_steps(subjects, manifest) if shadow else live_steps(subjects)
    told = iter(range(len(steps)))
    facts = Facts(planner)
    progress = run(planner, steps, settings, facts, shadow, lambda name: tell(name, next(told), len(steps)))
    specs = _specs(manifest, subjects, facts)
    # Offline, some tables have other names.
    relation = shadow.relation if shadow else operator.attrgetter("relation")
    report = Report(
        models=with_owners(with_inputs(progress.results, manifest, relation), manifest, relation),
        project=project_findings(settings, version, specs),
        planner=f"{planner.label}, Spark {version}",
        unfinished=progress.unfinished,
    )
    return accept(report, allowed, baseline)


def _folder_from(start: Path, project_dir: Path) -> str:
    """The project's folder as it is called in another one; empty when they are the same."""
    if project_dir == start:
        return ""
    try:
        return Path(os.path.relpath(project_dir, start)).as_posix()
    except ValueError:
        # Another drive of Windows.
        return project_dir.as_posix()


def _artifacts(request: Request, project: Project) -> Artifacts | None:
    """The manifest, unless plain SQL files from elsewhere are checked live, which need none."""
    home = project.target.project_dir
    elsewhere = request.files and not any(file.is_relative_to(home) for file in request.files)
    if elsewhere and not request.selection and not request.offline and not request.manifest:
        return None
    return project.artifacts(request.manifest, request.compile_anyway)


def _subjects(request: Request, project: Project, artifacts: Artifacts | None) -> Sequence[Subject]:
    home = project.target.project_dir
    manifest, errors = (artifacts.manifest, artifacts.errors) if artifacts else (None, {})
    files = [file_subject(file, home, manifest, errors) for file in request.files]
    if artifacts is None or manifest is None or (files and not request.selection):
        return files
    names = selectable(manifest)
    if request.selection:
        chosen = set(project.select(request.selection, artifacts.path))
        names = tuple(name for name in names if name in chosen)
    return [*(model_subject(manifest.nodes[name], home, errors.get(name)) for name in names), *files]


def _specs(manifest: Manifest, subjects: Sequence[Subject], facts: Facts) -> Mapping[str, BucketSpec]:
    """Bucket specs of what was checked and what it reads, by table: the configs', where nobody asked the metastore."""
    specs = {}
    for name in manifest.with_ancestors(subject.unique_id for subject in subjects if subject.unique_id):
        node = manifest.nodes[name]
        try:
            specs[table_name(node.relation or "")] = configured_layout(node.config, node.materialized, node.name).spec
        # dbt says so when the model is built.
        except BucketingError:
            continue
    specs |= {table.name.lower(): table.spec for table in facts.known()}
    return {name: spec for name, spec in specs.items() if spec}


@contextmanager
def _planner(request: Request, target: Target) -> Iterator[Planner]:
    if request.offline:
        extension = uses_extension(target.settings) if request.extension is None else request.extension
        with offline_planner(target.settings, extension) as offline, offline.settled():
            yield offline
    elif target.method == "session":
        with SessionPlanner("live (session)", open_session(target.settings)).settled() as live:
            yield live
    else:
        connection = Connection(target)
        try:
            yield SqlPlanner(f"live ({target.method})", connection.rows)
        finally:
            connection.close()


@contextmanager
def _folder(path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)
