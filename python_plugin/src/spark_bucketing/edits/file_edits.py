"""Show the edits of files as a diff, and write the files."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from spark_bucketing.edits.config_changes import FileEdit
from spark_bucketing.errors import ProjectError


def read(path: Path) -> str:
    """Return the text of a file, including its BOM and line endings."""
    return path.read_bytes().decode("utf-8")


def unified_diff(edits: Sequence[FileEdit]) -> str:
    """Return all edits as one patch, which `git apply` or `patch -p1` can apply in the project directory."""
    return "".join(line for edit in edits for line in _diff(edit))


def _diff(edit: FileEdit) -> Iterator[str]:
    # str.splitlines() also splits at characters that are not line endings in a patch.
    before, after = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (edit.before, edit.after))
    name = edit.path.as_posix()
    for line in difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"):
        yield line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


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
