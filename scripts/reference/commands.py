"""Generate the page about all commands and their options from the definitions in click."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from reference.markdown import table
from spark_bucketing.cli import main

HEAD = """# Commands

Use this page to look up a command of `spark-bucketing`, its options and its exit codes.

The exit code is 0 if a command finds no problem, and 1 if it has findings. It is 2 if the command could not run or a
result is unknown, and 130 after Ctrl-C, except for `check`, which then reports the queries checked so far, with exit
code 2. Commands that read a dbt project accept dbt's options `--project-dir`, `--profiles-dir` and `--target`.
Commands that compile the project also accept `--vars`.

## Shell completion

Add this line to `~/.bashrc`. In Zsh, replace `bash_source` with `zsh_source`. In Fish, replace it with `fish_source`:

```sh
eval "$(_SPARK_BUCKETING_COMPLETE=bash_source spark-bucketing)"
```
"""


def page() -> str:
    """Return the text of the page."""
    return "\n".join([HEAD, *(_section(path, command) for path, command in _commands("spark-bucketing", main))])


def _commands(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands in a group and its subgroups, sorted by name."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name, child in sorted(command.commands.items()):
        yield from _commands(f"{path} {name}", child)


def _section(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path, terminal_width=100)
    usage = f"```text\n{path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    options = table(["option", "default", "meaning"], filter(None, (_row(context, one) for one in command.params)))
    return f"## {path}\n\n{usage}\n{text}\n\n{options}"


def _row(context: click.Context, parameter: click.Parameter) -> tuple[str, str, str] | None:
    if not isinstance(parameter, click.Option):
        return None
    record = parameter.get_help_record(context)
    if record is None:
        return None
    # Click prints the default after the help text; this table has a separate column for it.
    default = parameter.get_help_extra(context).get("default", "")
    return f"`{record[0]}`", f"`{default.strip('()')}`" if default else "", parameter.help or ""
