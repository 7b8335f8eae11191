"""Tests of the choice of the file to edit, of refused changes, of writing edits, and of what dbt reads from edited files."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from case_tables import cases
from dbt.cli.main import dbtRunner
from dbt_projects import dbt_project

from conftest import REPOSITORY
from spark_bucketing.edits import FileEdit, Refusal, apply, plan_edits, unified_diff
from spark_bucketing.errors import ProjectError

BUCKETED = {"materialized": "bucketed_table", "buckets": 8}


class Project:
    """A project of a few files, and its manifest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nodes: dict[str, dict[str, Any]] = {}
        self.write("dbt_project.yml", "name: shop\n")

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(text.encode())

    def read(self, path: str) -> str:
        return (self.folder / path).read_bytes().decode()

    def model(self, name: str, sql: str, **entry: Any) -> str:
        path = f"models/{name}.sql"
        self.write(path, sql)
        defaults: dict[str, Any] = {"name": name, "resource_type": "model", "package_name": "shop", "language": "sql"}
        defaults |= {"original_file_path": path, "fqn": ["shop", "marts", name]}
        unique_id = f"model.shop.{name}"
        self.nodes[unique_id] = {**defaults, **entry}
        return unique_id

    @property
    def manifest(self) -> Mapping[str, Any]:
        return {"metadata": {"project_name": "shop"}, "nodes": self.nodes, "macros": {}}

    def planned(self, wanted: Mapping[str, Mapping[str, Any]]) -> tuple[Sequence[FileEdit], Sequence[Refusal]]:
        """Return the edits that give models these keys, and the refusals."""
        return plan_edits(self.folder, self.manifest, wanted)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


VERSIONS = "models:\n- name: m\n  config: {a: 1}\n  versions:\n  - v: 1\n    config: {b: 1}\n"
IN_YAML = {"patch_path": "shop://models/shop.yml"}


def test_key_that_versions_share_is_refused(project: Project) -> None:
    project.write("models/shop.yml", VERSIONS)
    model = project.model("m", "{{ config(files=8) }}", **IN_YAML, version=1)
    edits, (refusal,) = project.planned({model: {"b": 2}})
    assert edits == [] and refusal.model == model and refusal.instead
    assert "which share b in their properties" in refusal.reason


def test_models_can_share_a_properties_file(project: Project) -> None:
    entry = "- name: {}\n  config: {{buckets: {}}}\n"
    before = "models:\n" + entry.format("m", 1) + entry.format("same", 4) + entry.format("n", 2)
    project.write("models/shop.yml", before)
    one, same, two = (project.model(name, "select 1", **IN_YAML) for name in ("m", "same", "n"))
    wanted = {one: 8, same: 4, "model.shop.gone": 0, two: 16}
    (edit,), (refusal,) = project.planned({model: {"buckets": buckets} for model, buckets in wanted.items()})
    assert edit.after == before.replace("buckets: 1", "buckets: 8").replace("buckets: 2", "buckets: 16")
    assert refusal.reason == "The manifest does not contain this model."


def test_model_file_overrides_dbt_project(project: Project) -> None:
    project.write("dbt_project.yml", "models: {shop: {+materialized: view, marts: {materialized: table}}}\n")
    (edit,), refusals = project.planned({project.model("m", "select 1\n"): BUCKETED})
    after = "{{ config(materialized='bucketed_table', buckets=8) }}\n\nselect 1\n"
    assert edit == FileEdit(Path("models/m.sql"), "select 1\n", after) and refusals == []


@cases("edits/unedited", entry=..., reason=..., instead="config(")
def test_refused_change_comes_with_the_config_to_write(
    project: Project, entry: dict[str, Any], reason: str, instead: str
) -> None:
    model = project.model("m", "select 1", **entry)
    project.write("../outside.sql", "select 1")
    (project.folder / "models/link.sql").unlink(missing_ok=True)
    (project.folder / "models/link.sql").symlink_to(project.folder.parent / "outside.sql")
    (project.folder / "models/latin.sql").write_bytes("select 'ü'".encode("latin-1"))
    edits, (refusal,) = project.planned({model: BUCKETED})
    assert edits == [] and reason in refusal.reason and instead in refusal.instead


@pytest.fixture
def edits(project: Project) -> Sequence[FileEdit]:
    """Return the edits of three models."""
    texts = {"crlf": "\ufeffselect 1\r\n-- ü", "end": "{{ config(buckets=1) }}", "separator": "select '\u2028\x0c'\n"}
    edits, refusals = project.planned({project.model(name, text): BUCKETED for name, text in texts.items()})
    assert len(edits) == 3 and not refusals
    return edits


def written(project: Project) -> list[str]:
    return [project.read(f"models/{name}.sql") for name in ("crlf", "end", "separator")]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_diff_is_a_valid_patch(project: Project, edits: Sequence[FileEdit], tmp_path: Path) -> None:
    patch = unified_diff(edits)
    assert patch.startswith("--- a/models/crlf.sql\n+++ b/models/crlf.sql\n@@")
    environment = {"PATH": "/usr/bin:/bin", "GIT_CEILING_DIRECTORIES": str(tmp_path)}
    subprocess.run(["git", "apply", "-"], input=patch.encode(), cwd=project.folder, check=True, env=environment)
    assert written(project) == [edit.after for edit in edits]


def test_edits_keep_permissions_and_are_idempotent(project: Project, edits: Sequence[FileEdit]) -> None:
    file = project.folder / "models/end.sql"
    file.chmod(0o640)
    apply(project.folder, edits)
    assert written(project) == [edit.after for edit in edits] and len(list(file.parent.iterdir())) == 3
    assert file.stat().st_mode & 0o777 == 0o640
    assert project.planned(dict.fromkeys(project.nodes, BUCKETED)) == ([], [])


@pytest.mark.parametrize(
    ("text", "message"),
    [("select 2", "has changed since the command read it. No config has been changed"), (None, "cannot be read")],
)
def test_changed_or_missing_file_stops_all_edits(
    project: Project, edits: Sequence[FileEdit], text: str | None, message: str
) -> None:
    file = project.folder / "models" / "separator.sql"
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(ProjectError, match=f"`models/separator.sql` {message}"):
        apply(project.folder, edits)
    assert project.read("models/crlf.sql") == edits[0].before


@pytest.mark.parametrize("error", [OSError(28, "No space left on device", "models/end.sql"), KeyboardInterrupt()])
def test_failed_write_restores_the_files_written_before(
    project: Project, edits: Sequence[FileEdit], monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    replace = Path.replace
    taken = []

    def failing(self: Path, target: Path) -> Path:
        taken.append(target.name)
        if taken == ["crlf.sql", "end.sql"]:
            raise error
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises((ProjectError, KeyboardInterrupt)):
        apply(project.folder, edits)
    assert taken == ["crlf.sql", "end.sql", "crlf.sql"] and len(list((project.folder / "models").iterdir())) == 3
    assert written(project) == [edit.before for edit in edits]


WANTED = {"materialized": "bucketed_table", "buckets": 8, "clustered_by": ["k"]}
FILES = yaml.safe_load((REPOSITORY / "tests" / "cases" / "edits" / "project.yml").read_text())
LEFT_TO_THE_USER = {
    "model.p.logic": "The model's config() call sets buckets with a Jinja expression.",
    "model.p.logic_in_yaml": "The config in the model's YAML properties sets buckets with a Jinja expression.",
    "model.p.by_macro": "The model calls the macro inner, which calls config().",
    "model.p.shared.v1": "The model has several versions, which share materialized in their properties.",
}


def test_dbt_reads_the_requested_config_and_no_other_change(tmp_path: Path) -> None:
    project = dbt_project(tmp_path / "project")
    for name, text in FILES.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_bytes(text.encode())
    manifest = parsed(project)
    before = configs(manifest)
    changes = dict.fromkeys(before, WANTED)
    edits, refusals = plan_edits(project, manifest, changes)
    assert {refusal.model: refusal.reason for refusal in refusals} == LEFT_TO_THE_USER
    models = ("none", "of_the_folder", "in_sql", "in_a_mapping", "in_both", "reads", "versioned_v1")
    assert {edit.path.name for edit in edits} == {*(f"{name}.sql" for name in models), "models.yml"}
    apply(project, edits)
    # The YAML keeps the value that the SQL overrides.
    assert (
        "config: {buckets: 8, clustered_by: [k], materialized: view, on_schema_change: fail}"
        in (project / "models/models.yml").read_text()
    )
    after = configs(manifest := parsed(project))
    assert after == {name: of if name in LEFT_TO_THE_USER else {**of, **WANTED} for name, of in before.items()}
    assert plan_edits(project, manifest, changes)[0] == []


def parsed(project: Path) -> dict[str, Any]:
    arguments = ("--project-dir", str(project), "--profiles-dir", str(project), "--quiet", "--no-partial-parse")
    outcome = dbtRunner().invoke(["parse", *arguments, "--log-path", str(project / "logs")])
    assert outcome.success, outcome.exception
    manifest: dict[str, Any] = json.loads((project / "target" / "manifest.json").read_text())
    return manifest


def configs(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: node["config"] for name, node in manifest["nodes"].items() if node["resource_type"] == "model"}
