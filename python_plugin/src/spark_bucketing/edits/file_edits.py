"""Define file edits and refused changes; format config values; write files, and show them as a diff."""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from spark_bucketing.errors import ProjectError


@dataclass(frozen=True)
class FileEdit:
    """The text of one file before and after an edit, including its BOM and line endings."""

    path: Path  # relative to the project directory
    before: str
    after: str


@dataclass(frozen=True)
class Refusal:
    """A requested change that is not made, because only the user can make it safely."""

    model: str  # unique id
    reason: str  # the reason for the refusal, as a sentence
    instead: str  # the config to write by hand


class CannotEditError(Exception):
    """Raised if a config cannot be edited safely. The message is a sentence that states the reason."""


def same(left: object, right: object) -> bool:
    """Return whether two config values are the same.

    The number 1 differs from True and from 1.0, but a tuple equals a list with the same members.
    """
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    # NaN does not equal itself, so compare the text.
    return type(left) is type(right) and repr(left) == repr(right)


def in_jinja(value: object, quote: str = "'") -> str:
    """Format a value as a Jinja literal: None, a boolean, a number, a string, or a list or mapping of such values."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        # Jinja accepts Python's string escapes, which include JSON's.
        escaped = json.dumps(value, ensure_ascii=False)[1:-1].replace('\\"', '"')
        return quote + escaped.replace(quote, "\\" + quote) + quote
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{in_jinja(key, quote)}: {in_jinja(one, quote)}' for key, one in value.items())}}}"
    if isinstance(value, Sequence):
        return f"[{', '.join(in_jinja(one, quote) for one in value)}]"
    raise TypeError(f"A config cannot contain the value {value!r}.")


def in_yaml(value: object, quote: str | None = None) -> str:
    """Format a value as YAML on one line, with this quote if any. The text is also valid in flow lists and mappings."""
    value = list(value) if isinstance(value, tuple) else value
    options: Any = {"default_flow_style": True, "allow_unicode": True, "sort_keys": False, "width": float("inf")}
    plain, quoted = (
        str(yaml.safe_dump([value], default_style=style, **options)).strip()[1:-1] for style in (quote, '"')
    )
    # YAML escapes line breaks only in double quotes.
    return quoted if "\n" in plain else plain


def line_end(text: str) -> str:
    """Return the line ending that the first line of a text has."""
    first = text.partition("\n")[0]
    return "\r\n" if first.endswith("\r") and "\n" in text else "\n"


def read(path: Path) -> str:
    """Return the text of a file, including its BOM and line endings."""
    return path.read_bytes().decode("utf-8")


def unified_diff(edits: Sequence[FileEdit]) -> str:
    """Return all edits as one patch, which `git apply` or `patch -p1` can apply in the project directory."""
    lines = []
    for edit in edits:
        # str.splitlines() also splits at characters that are not line endings in a patch.
        before, after = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (edit.before, edit.after))
        name = edit.path.as_posix()
        diff = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
        lines += [line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in diff]
    return "".join(lines)


def apply(project_dir: Path, edits: Sequence[FileEdit]) -> None:
    """Write all edits, or none if an error occurs.

    Each edit is written to a temporary file, which then replaces the original file and keeps its permissions. After an
    error, the original files are restored, unless restoring fails, too.
    """
    places = [((project_dir / edit.path).resolve(), edit) for edit in edits]
    for path, edit in places:
        _refuse_changed(path, edit)
    with ExitStack() as temporary, ExitStack() as undo:
        try:
            ready = [_written_beside(path, edit.after, temporary) for path, edit in places]
            for new, (path, edit) in zip(ready, places, strict=True):
                # Check as late as possible.
                _refuse_changed(path, edit)
                old = _written_beside(path, edit.before, temporary) if path.exists() else None
                new.replace(path)
                undo.callback(*((old.replace, path) if old else (path.unlink,)))
        except OSError as error:
            raise ProjectError(
                f"`{error.filename or project_dir}` cannot be written. No config has been changed.",
                found=error.strerror,
                expected="a file that this user can write",
                instead="grant access to the file, and run the command again",
            ) from error
        undo.pop_all()


def _refuse_changed(path: Path, edit: FileEdit) -> None:
    sentence = f"The file `{edit.path}` cannot be read. No config has been changed."
    expected, instead = "a file that this user can read", "grant access to the file, and run the command again"
    with ProjectError.replacing((OSError, UnicodeDecodeError), sentence, expected, instead):
        unchanged = (read(path) if edit.before or path.exists() else "") == edit.before
    if not unchanged:
        raise ProjectError(
            f"The file `{edit.path}` has changed since the command read it. No config has been changed.",
            expected="no other edits while the command runs",
            instead="run the command again",
        )


def _written_beside(path: Path, text: str, temporary: ExitStack) -> Path:
    """Write a temporary file next to the original, which is deleted at the end unless it replaces the original."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary.callback(Path(name).unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as file:
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        shutil.copymode(path, name)
    else:
        Path(name).chmod(0o644)
    return Path(name)
