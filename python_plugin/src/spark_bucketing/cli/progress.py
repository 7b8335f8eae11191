"""One line at the bottom of a terminal that says what a command is at."""

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

STARTING, CONNECTING = "starting Spark", "connecting to the server"


class ProgressLine:
    """The line; nothing where standard error is no terminal."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)
        self._what = ""

    def show(self, what: str) -> None:
        """Say what is at work now."""
        self._what = what
        self._progress.update(self._task, description=what)

    @property
    def on_tasks(self) -> Callable[[int, int], None] | None:
        """To be called with how many of Spark's tasks are done, and of how many; None where nobody would see it."""
        return None if self._progress.disable else self._show_tasks

    def _show_tasks(self, done: int, total: int) -> None:
        tasks = f", {done:,} of {total:,} tasks" if total else ""
        self._progress.update(self._task, description=f"{self._what}{tasks}")

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Erase the line while something else is written to the same terminal."""
        self._progress.stop()
        yield
        self._progress.start()

    def echo(self, text: str) -> None:
        """Write a line to standard output."""
        with self.hidden():
            click.echo(text)


@contextmanager
def progress_line(what: str = "") -> Iterator[ProgressLine]:
    """A line on standard error while the block runs, where that is a terminal; nothing is left of it."""
    terminal = sys.stderr.isatty() and Console(stderr=True).is_interactive
    # A descriptor of its own: while Spark starts, the process's standard error is kept for its messages.
    stream = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8") if terminal else io.StringIO()
    text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    progress = Progress(
        SpinnerColumn(),
        text,
        TimeElapsedColumn(),
        console=Console(file=stream),
        transient=True,
        # Standard output is the report's, wherever it goes.
        redirect_stdout=False,
        disable=not terminal,
    )
    with stream, progress:
        line = ProgressLine(progress)
        line.show(what)
        yield line
