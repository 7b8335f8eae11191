"""Tests of the progress line of a command, which appears only on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

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


def test_message_has_its_own_line() -> None:
    _, screen = shown(terminal=True, same=True)
    codes = r"(?:\x1b\[[\d;?]*[A-Za-z]|\r)*"
    for message in ("tasks are counted", "the end"):
        assert re.search(rf"(?:\n|\x1b\[2K){codes}{message}\r\n", screen), screen


@pytest.mark.parametrize("forced", ["", "1"])
def test_pipe_shows_no_progress(forced: str) -> None:
    assert shown(terminal=False, FORCE_COLOR=forced) == ("tasks are not counted\nthe end\n", "")


def test_terminal_that_cannot_erase_shows_no_progress() -> None:
    assert shown(terminal=True, TERM="dumb") == ("tasks are not counted\nthe end\n", "")


@pytest.mark.parametrize("terminal", [True, False])
def test_check_shows_the_current_model(terminal: bool) -> None:
    output, errors = shown(terminal, script=CHECKED)
    assert ("planning 4 of 12 models (the_model)" in errors) == terminal
    assert output.startswith("0 queries") and "\x1b" not in output
