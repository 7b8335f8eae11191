"""Show the edits of files as a diff, and write the files."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from spark_bucketing.edits.config_changes import FileEdit
from spark_bucketing.errors import ProjectError

_NO_LINE_END = "\n\\ No newline at end of file\n"


def read(path: Path) -> str:
    """Return the text of a file, including its BOM and line endings.

    Raises:
        OSError: the file cannot be read.
        UnicodeDecodeError: the file is not valid UTF-8.
    """
    return path.read_bytes().decode("utf-8")


def unified_diff(edits: Sequence[FileEdit]) -> str:
    """Return all edits as one patch, which `git apply` or `patch -p1` can apply in the project directory."""
    return "".join(line for edit in edits for line in _diff(edit))


def _diff(edit: FileEdit) -> Iterator[str]:
    name = edit.path.as_posix()
    lines = difflib.unified_diff(_lines(edit.before), _lines(edit.after), f"a/{name}", f"b/{name}")
    for line in lines:
        yield line if line.endswith("\n") else line + _NO_LINE_END


def _lines(text: str) -> list[str]:
    # str.splitlines() also splits at characters that are not line endings in a patch.
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def apply(project_dir: Path, edits: Sequence[FileEdit]) -> None:
    """Write all edits, or none if an error occurs.

    After an error, the original files are restored, unless restoring fails, too.

    Each edit is written to a temporary file, which then replaces the original file and keeps its permissions.

    Args:
        project_dir: directory of dbt_project.yml.
        edits: edits from plan_edits().

    Raises:
        ProjectError: a file has changed since the edits were planned, or cannot be written.
    """
    places = [((project_dir / edit.path).resolve(), edit) for edit in edits]
    for path, edit in places:
        _refuse_changed(path, edit)
    with ExitStack() as temporary, ExitStack() as undo:
        try:
            ready = [(temporary.enter_context(_Beside(path, edit.after)), path) for path, edit in places]
            for (beside, path), (_, edit) in zip(ready, places, strict=True):
                # Check as late as possible.
                _refuse_changed(path, edit)
                back = temporary.enter_context(_Beside(path, edit.before)).take_place if path.exists() else path.unlink
                beside.take_place()
                undo.callback(back)
        except OSError as error:
            raise ProjectError(
                f"`{error.filename or project_dir}` cannot be written. No config has been changed.",
                found=error.strerror,
                expected="a file that this user can write",
                instead="grant access to the file, and run the command again",
            ) from error
        undo.pop_all()


def _refuse_changed(path: Path, edit: FileEdit) -> None:
    try:
        unchanged = (read(path) if edit.before or path.exists() else "") == edit.before
    except (OSError, UnicodeDecodeError) as error:
        raise ProjectError(
            f"The file `{edit.path}` cannot be read. No config has been changed.",
            found=error,
            expected="a file that this user can read",
            instead="grant access to the file, and run the command again",
        ) from error
    if not unchanged:
        raise ProjectError(
            f"The file `{edit.path}` has changed since the command read it. No config has been changed.",
            expected="no other edits while the command runs",
            instead="run the command again",
        )


class _Beside:
    """A temporary file next to the original, which either replaces the original or is deleted."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        self._file = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
            if path.exists():
                shutil.copymode(path, self._file)
            else:
                self._file.chmod(0o644)
        except OSError:
            self._file.unlink()
            raise

    def take_place(self) -> None:
        self._file.replace(self._path)

    def __enter__(self) -> _Beside:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(FileNotFoundError):
            self._file.unlink()
