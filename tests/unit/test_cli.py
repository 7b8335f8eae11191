"""Tests of the command line without Spark: help, exit codes, usage errors, and progress on a terminal."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from case_tables import cases
from click.testing import CliRunner, Result
from dbt_projects import dbt_project

from conftest import REPOSITORY
from spark_bucketing.cli import main

FAR = {"type": "spark", "method": "thrift", "host": "somewhere", "schema": "s"}


def write_profile(folder: Path, target: str, **outputs: dict[str, str]) -> None:
    (folder / "profiles.yml").write_text(yaml.safe_dump({"p": {"target": target, "outputs": outputs}}))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a dbt project with two targets and make it the working directory."""
    dbt_project(tmp_path)
    write_profile(tmp_path, "here", here=FAR | {"method": "session", "host": "NA"}, far=FAR)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in sorted(group.commands.items()):
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


@pytest.mark.parametrize(
    ("path", "command"), list(commands(main)), ids=lambda value: " ".join(value) if type(value) is tuple else ""
)
def test_every_command_and_option_has_help(path: tuple[str, ...], command: click.Command) -> None:
    assert command.help
    assert all(option.help for option in command.params if isinstance(option, click.Option))
    assert run(*path, "--help").exit_code == 0


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("ta", ["table"]), ("table s", ["seal", "show", "stats"]), ("check --select a b --form", ["--format"]),
        ("check --format j", ["json"]), ("check --select ", []),
    ],
)  # fmt: skip
def test_shell_completion_works_as_documented(typed: str, completed: list[str]) -> None:
    variable = "_SPARK_BUCKETING_COMPLETE"
    documented = f'eval "$({variable}=bash_source spark-bucketing)"'
    assert documented in (REPOSITORY / "docs" / "reference" / "commands.md").read_text()
    words = {"COMP_WORDS": f"spark-bucketing {typed}", "COMP_CWORD": str(len(typed.split(" ")))}
    result = CliRunner().invoke(main, prog_name="spark-bucketing", env={variable: "bash_complete", **words})
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert [line.removeprefix("plain,") for line in result.output.split()] == completed


@cases("commands/errors", command=..., said=...)
def test_usage_error_is_a_message_with_exit_code_2(folder: Path, command: str, said: str) -> None:
    (folder / "empty").mkdir()
    result = run(*shlex.split(command))
    assert result.exit_code == 2 and said in result.output and "Traceback" not in result.output


def test_project_and_profile_are_found_where_dbt_finds_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "models")
    assert "somewhere" in run("table", "show", "--profiles-dir", "..", "--target", "far").output
    (folder / "profiles.yml").unlink()
    (folder / ".dbt").mkdir()
    write_profile(folder / ".dbt", "{{ env_var('WHERE') }}", far=FAR)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("WHERE", "far")
    assert "somewhere" in run("table", "show").output


def test_without_dbt_the_message_says_how_to_install_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dbt.config.runtime", None)
    result = run("table", "show")
    assert result.exit_code == 2 and "pip install 'spark-bucketing[dbt]'" in result.output


SHOWN = """
from spark_bucketing.cli.progress import progress_line

with progress_line("starting [spark]") as line:
    line._progress.refresh()
    line.show("hashing files of a.b")
    if line.on_tasks:
        line.on_tasks(12, 64)
    line._progress.refresh()
    line.echo("tasks are counted" if line.on_tasks else "tasks are not counted")
    line.show("the next step")
    line._progress.refresh()
print("the end")
"""

CHECKED = """
from spark_bucketing.checks import project as command
from spark_bucketing.cli import main
from spark_bucketing.checks.results import Report

def check_project(request, on_progress):
    on_progress("the_model", 3, 12)
    return Report(())

command.check_project = check_project
main(["check"])
"""


def shown(terminal: bool, same: bool = False, script: str = SHOWN, **environment: str) -> tuple[str, str]:
    """Return standard output and standard error; if both are the same terminal, standard error contains everything."""
    main_end, child_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=child_end if same else subprocess.PIPE,
        stderr=child_end if terminal else subprocess.PIPE,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"} | environment,
        text=True,
    )
    output, errors = process.communicate(timeout=60)
    # Reading a terminal fails if it has no output.
    os.write(child_end, b"|")
    errors = os.read(main_end, 100_000).decode().removesuffix("|") if terminal else errors
    os.close(child_end)
    os.close(main_end)
    assert process.returncode == 0
    return output, errors


def test_terminal_shows_one_line_per_step_and_is_restored() -> None:
    output, errors = shown(terminal=True)
    assert output == "tasks are counted\nthe end\n"
    for step in ("starting [spark]", "hashing files of a.b, 12 of 64 tasks", "the next step"):
        assert step in errors
    assert errors.rstrip().endswith("\x1b[2K") and errors.count("\n") <= 4
    # A message has its own line.
    _, screen = shown(terminal=True, same=True)
    codes = r"(?:\x1b\[[\d;?]*[A-Za-z]|\r)*"
    for message in ("tasks are counted", "the end"):
        assert re.search(rf"(?:\n|\x1b\[2K){codes}{message}\r\n", screen), screen


@pytest.mark.parametrize(
    ("terminal", "environment"), [(False, {"FORCE_COLOR": ""}), (False, {"FORCE_COLOR": "1"}), (True, {"TERM": "dumb"})]
)
def test_pipe_or_terminal_that_cannot_erase_shows_no_progress(terminal: bool, environment: dict[str, Any]) -> None:
    assert shown(terminal, **environment) == ("tasks are not counted\nthe end\n", "")


@pytest.mark.parametrize("terminal", [True, False])
def test_check_shows_the_current_model(terminal: bool) -> None:
    output, errors = shown(terminal, script=CHECKED)
    assert ("planning 4 of 12 models (the_model)" in errors) == terminal
    assert output.startswith("0 queries") and "\x1b" not in output
