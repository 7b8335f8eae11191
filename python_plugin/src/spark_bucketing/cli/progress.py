"""Show the current step of a command in one line at the bottom of the terminal."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column


class ProgressLine:
    """A line that shows the current step; prints nothing if standard error is not a terminal."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)
        self._what = ""

    def show(self, what: str) -> None:
        """Show a step."""
        self._what = what
        self._progress.update(self._task, description=what)

    @property
    def on_tasks(self) -> Callable[[int, int], None] | None:
        """Return a callback that shows how many of all tasks are finished, or None if the line is disabled."""
        return None if self._progress.disable else self._show_tasks

    def _show_tasks(self, done: int, total: int) -> None:
        tasks = f", {done:,} of {total:,} tasks" if total else ""
        self._progress.update(self._task, description=f"{self._what}{tasks}")

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the line inside the block, so that other output can go to the terminal."""
        self._progress.stop()
        yield
        self._progress.start()

    def echo(self, text: str) -> None:
        """Print a line to standard output."""
        with self.hidden():
            click.echo(text)


@contextmanager
def progress_line(what: str = "") -> Iterator[ProgressLine]:
    """Show a line on standard error while the block runs, and erase it afterwards.

    If standard error is not a terminal, show nothing.
    """
    terminal = sys.stderr.isatty() and Console(stderr=True).is_interactive
    # Duplicate the descriptor, because the process's standard error is captured while Spark starts.
    stream = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8") if terminal else io.StringIO()
    text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    progress = Progress(
        SpinnerColumn(),
        text,
        TimeElapsedColumn(),
        console=Console(file=stream),
        transient=True,
        # Standard output is for the report only.
        redirect_stdout=False,
        disable=not terminal,
    )
    with stream, progress:
        line = ProgressLine(progress)
        line.show(what)
        yield line
