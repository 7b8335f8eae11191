"""Define options that several commands share, and the standard output for a format."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import unquote, urlsplit

import click

from spark_bucketing.api import Result
from spark_bucketing.config.schema import KEYS
from spark_bucketing.errors import ProjectError
from spark_bucketing.event_log.log_files import find_logs, is_remote
from spark_bucketing.project.profile import Place
from spark_bucketing.units import parse_size

FOLDER = click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path)
READ_FILE = click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path)
WRITTEN_FILE = click.Path(dir_okay=False, path_type=Path)
OUTPUT = click.option("--output", "-o", type=WRITTEN_FILE, help="Write the report to FILE instead of standard output.")


def format_of(*formats: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option that selects the format of a report; the first of the given formats is the default."""
    kind = click.Choice(formats)
    return click.option(
        "--format", "form", type=kind, default=formats[0], show_default=True, help="Format of the report."
    )


FORMAT = format_of("text", "json")


def standard_output(form: str) -> TextIO:
    """Return standard output with an encoding that suits the report format.

    The encoding is UTF-8, or the terminal's own encoding for text. Characters that it does not support are replaced.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding=None if form == "text" else "utf-8", errors="replace")
    return sys.stdout


@contextmanager
def report_file(output: Path | None, form: str) -> Iterator[TextIO]:
    """Open the file of a report, or standard output."""
    if output is None:
        yield standard_output(form)
        return
    expected, sentence = "a path that this user can write", f"The report cannot be written to `{output}`."
    with (
        ProjectError.replacing(OSError, sentence, expected, "choose another path"),
        output.open("w", encoding="utf-8", errors="replace") as file,
    ):
        yield file


def finish(result: Result[Any], form: str, output: Path | None = None) -> None:
    """Write the report of a command, and exit with its code."""
    with report_file(output, form) as file:
        result.write(form, file)
    click.get_current_context().exit(result.exit_code)


class _Size(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Convert a size with a unit, such as 2TiB, to a number of bytes."""

    name = "size"

    def __init__(self, least: int = 0) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            size = parse_size(value)
        except ValueError:
            self.fail(f"{value!r} is not a size. Expected a number with a unit, as in 256MiB or 2TiB.", param, ctx)
        if size < self._least:
            self.fail(f"{value!r} is too small. Expected a number with a unit, as in 256MiB or 2TiB.", param, ctx)
        return size


SIZE, SOME = _Size(), _Size(least=1)


def sized(name: str, kind: Any, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return an option for a size, by default 256 MiB."""
    return click.option(name, type=kind, default=2**28, show_default="256MiB", help=text)


VARIABLES = click.option("--vars", "variables", default="{}", help="Project variables as YAML, as in dbt.")
EXTENSION = click.option(
    "--extension/--no-extension",
    default=None,
    help="With --offline, plan with or without the session extension; by default, as the target's "
    "server_side_parameters say.",
)
MANIFEST = click.option(
    "--manifest", type=READ_FILE, help="Use this manifest.json with compiled models, instead of compiling the project."
)


def time_limit(effect: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option that limits the time for planning a query; its help ends with the effect of a longer time."""
    text = f"Time limit for planning a query, in seconds. {effect}"
    return click.option("--time-limit", type=click.FloatRange(min=1), default=120.0, show_default=True, help=text)


def event_log(value: str) -> str:
    """Return a URI unchanged, and return a local path as an absolute path.

    Commands change to the project's directory, so relative paths would point elsewhere.
    """
    path = unquote(urlsplit(value).path) if value.lower().startswith("file:") else value
    if is_remote(path):
        return path
    find_logs([path])
    return str(Path(path).absolute())


event_logs = partial(click.option, type=event_log, metavar="PATH", multiple=True)
"""Returns an option that takes event logs and directories of event logs, from the arguments of click.option."""


def integer_of(key: str) -> click.IntRange:
    """Return the click type of an option that overrides a config key."""
    return click.IntRange(KEYS[key].minimum, KEYS[key].maximum)


def project_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add dbt's options that select the project, the profile and the target.

    The command gets them as one argument `place`.
    """

    @click.option(
        "--project-dir",
        type=FOLDER,
        envvar="DBT_PROJECT_DIR",
        help="Directory of dbt_project.yml; the default is the current directory or a parent, as in dbt.",
    )
    @click.option(
        "--profiles-dir",
        type=FOLDER,
        envvar="DBT_PROFILES_DIR",
        help="Directory of profiles.yml; the default is the current directory or ~/.dbt, as in dbt.",
    )
    @click.option(
        "--target",
        "-t",
        envvar="DBT_TARGET",
        help="Target in the profile; the default is the profile's default target.",
    )
    @wraps(function)
    def with_place(
        *arguments: Any, project_dir: Path | None, profiles_dir: Path | None, target: str | None, **options: Any
    ) -> Any:
        return function(*arguments, place=Place(project_dir, profiles_dir, target), **options)

    return with_place
