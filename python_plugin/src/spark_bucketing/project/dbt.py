"""Run dbt commands in this process, to compile a project and to select its nodes."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from spark_bucketing.errors import ProjectError
from spark_bucketing.project.profile import Target

# Do not compile data tests: a project may have many, and `check` does not analyze them.
_COMPILED = ("model", "snapshot", "analysis")
_MOST_ROUNDS = 10
SELECTED = ("model", "snapshot")


@dataclass(frozen=True)
class Selection:
    """The arguments for dbt's node selection. If both lists are empty, dbt selects all nodes."""

    select: tuple[str, ...] = ()  # values of --select
    exclude: tuple[str, ...] = ()  # values of --exclude
    state: Path | None = None  # directory of another run's artifacts to compare with; None for no comparison

    def __bool__(self) -> bool:
        return bool(self.select or self.exclude)


@dataclass(frozen=True)
class Dbt:
    """A project with its profile, in the form of arguments for dbt commands."""

    project_dir: Path  # directory of dbt_project.yml
    profiles_dir: Path  # directory of profiles.yml
    target_path: Path  # directory for dbt's artifacts
    target: str | None = None  # name of the target; None for the profile's default
    variables: str = "{}"  # --vars, as YAML

    def compile(self) -> dict[str, str]:
        """Compile all models, snapshots and analyses. Return dbt's error for each node that failed, by unique id."""
        # dbt compile does not have the option --resource-type.
        kinds = ("--select", *(f"resource_type:{kind}" for kind in _COMPILED))
        failed: dict[str, str] = {}
        exclude: list[str] = []
        failure = f"dbt cannot compile the project in `{self.project_dir}`.", "correct the project"
        # dbt skips the children of a failed node unless that node is excluded.
        for _ in range(_MOST_ROUNDS):
            results = self._invoke(failure, "compile", *kinds, "--no-populate-cache", *exclude).results
            errors = [one for one in results if one.status == "error" and one.node.unique_id not in failed]
            if not errors:
                break
            failed |= {one.node.unique_id: str(one.message).strip() for one in errors}
            exclude += [word for one in errors for word in ("--exclude", ".".join(one.node.fqn))]
        return failed

    def parse(self) -> dict[str, Any]:
        """Parse the project, and return the content of its manifest.json."""
        self._invoke((f"dbt cannot parse the project in `{self.project_dir}`.", "correct the project"), "parse")
        manifest: dict[str, Any] = json.loads((self.target_path / "manifest.json").read_text(encoding="utf-8"))
        return manifest

    def select(self, selection: Selection, manifest: Path | None = None) -> tuple[str, ...]:
        """Return the unique ids of the models and snapshots that dbt's selectors choose, from a manifest if given."""
        arguments = [argument for kind in SELECTED for argument in ("--resource-type", kind)]
        if selection.select:
            arguments += ["--select", *selection.select]
        if selection.exclude:
            arguments += ["--exclude", *selection.exclude]
        if selection.state:
            arguments += ["--state", str(selection.state)]
        # Otherwise, dbt would replace the manifest with one without compiled code.
        arguments += ["--no-write-json", "--output", "json", "--output-keys", "unique_id"]
        result = self._invoke(("dbt cannot select models.", "use other selectors"), "ls", *arguments, manifest=manifest)
        return tuple(json.loads(line)["unique_id"] for line in result or ())

    def _invoke(self, failure: tuple[str, str], command: str, *arguments: str, manifest: Path | None = None) -> Any:
        """Return the result of a dbt command, or raise an error with the sentence and the advice of a failure."""
        from dbt.cli.main import dbtRunner
        from dbt.contracts.graph.manifest import Manifest, WritableManifest
        from dbt_common.exceptions import DbtBaseException

        errors: list[str] = []

        def listen(event: Any) -> None:
            if event.info.level == "error" and event.info.msg.strip():
                errors.append(event.info.msg.strip())

        loaded = None
        if manifest:
            sentence, instead = f"dbt cannot read the manifest `{manifest}`.", "run `dbt compile` to write it again"
            with ProjectError.replacing(DbtBaseException, sentence, instead=instead):
                loaded = Manifest.from_writable_manifest(WritableManifest.read_and_check_versions(str(manifest)))
        runner: Any = dbtRunner(manifest=loaded, callbacks=[listen])
        runner = _CompileRunner(listen) if command == "compile" else runner
        # dbt prints to standard output, which the report uses.
        with redirect_stdout(io.StringIO()):
            outcome = runner.invoke([command, *arguments, *self._place()])
        if isinstance(outcome.exception, KeyboardInterrupt):
            raise outcome.exception
        # `dbt compile` also fails if it has compiled some of the nodes.
        if not outcome.success and not hasattr(outcome.result, "results"):
            found = str(outcome.exception).strip() if outcome.exception else "\n".join(errors)
            sentence, instead = failure
            raise ProjectError(sentence, found=found or "dbt does not state a reason.", instead=instead)
        return outcome.result

    def _place(self) -> Sequence[str]:
        target = ("--target", self.target) if self.target else ()
        folders = ("--project-dir", str(self.project_dir), "--profiles-dir", str(self.profiles_dir))
        quiet = ("--quiet", "--no-use-colors", "--log-level", "none", "--log-level-file", "none")
        # dbt creates its log directory even if it does not write a log.
        places = ("--target-path", str(self.target_path), "--log-path", str(self.target_path))
        return *folders, *target, *quiet, *places, "--vars", self.variables, "--no-send-anonymous-usage-stats"


def read_models(target: Target) -> dict[str, Any]:
    """Parse a project without compiling it, and return its manifest."""
    with tempfile.TemporaryDirectory(prefix="spark-bucketing-") as name:
        return Dbt(target.project_dir, target.profiles_dir, Path(name), target.name).parse()


def write_session_profile(folder: Path, profile: str, target: str, schema: str) -> None:
    """Write a profile with which dbt uses the Spark in this process instead of a warehouse."""
    output = {"type": "spark", "method": "session", "host": "NA", "schema": schema, "threads": 1}
    # JSON is valid YAML, and names that dbt has read contain no Jinja to render.
    text = json.dumps({profile: {"target": target, "outputs": {target: output}}})
    (folder / "profiles.yml").write_text(text, encoding="utf-8")


class _CompileRunner:
    """Runs `dbt compile`, but continues after an error, like `dbt run`."""

    def __init__(self, listen: Callable[[Any], None]) -> None:
        self._listen = listen

    def invoke(self, arguments: list[str]) -> Any:
        """Run the command like dbtRunner.invoke()."""
        from dbt.cli import main, requires
        from dbt.task.compile import CompileTask

        class Task(CompileTask):  # type: ignore[misc]
            def raise_on_first_error(self) -> bool:
                return False

        def run(ctx: Any, **_: Any) -> tuple[Any, bool]:
            task = Task(ctx.obj["flags"], ctx.obj["runtime_config"], ctx.obj["manifest"])
            results = task.run()
            return results, bool(task.interpret_results(results))

        steps = (requires.manifest, requires.runtime_config, requires.catalogs, requires.project, requires.profile)
        for step in (*steps, requires.preflight, requires.postflight):
            run = step(run)
        command = copy(main.cli.commands["compile"])
        command.callback = click.pass_context(run)
        group = main.cli.make_context(main.cli.name, list(arguments))
        group.obj = {"manifest": None, "callbacks": [self._listen], "dbt_runner_command_args": arguments}
        try:
            with group, command.make_context("compile", arguments[1:], parent=group) as ctx:
                results, success = command.invoke(ctx)
            return main.dbtRunnerResult(result=results, success=success)
        except requires.ResultExit as error:
            return main.dbtRunnerResult(result=error.result, success=False)
        except requires.ExceptionExit as error:
            return main.dbtRunnerResult(exception=error.exception, success=False)
