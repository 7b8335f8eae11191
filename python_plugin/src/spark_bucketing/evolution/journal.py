"""What a rewrite writes down of its files in its hidden folder, for itself and for the run after its death."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from spark_bucketing.evolution.staging import Staging
from spark_bucketing.evolution.warehouse import StoredFile, Warehouse

# Hidden, as everything in that folder but the new files.
_REPLACED, _WRITTEN, _DELETES, _RETURNED = "_replaced.json", "_written.json", "_deletes", "_returned"


@dataclass(frozen=True)
class Written:
    """The new files of a partition, as they were before the swap.

    Args:
        folder: in which they were written, which the swap makes the partition's location.
        files: all of them.
    """

    folder: str
    files: tuple[StoredFile, ...]


class Journal:
    """By these lists a run tells the files of a rewrite from those of somebody else.

    Args:
        warehouse: with an open session.
        staging: the rewrite.
    """

    def __init__(self, warehouse: Warehouse, staging: Staging) -> None:
        self._warehouse, self._folder = warehouse, staging.folder

    def replaces(self, files: Sequence[StoredFile]) -> None:
        """Note the files that are to be replaced."""
        self._write(_REPLACED, _values(files))

    def replaced(self) -> tuple[StoredFile, ...]:
        """The files that are to be replaced; none where they were not noted."""
        return _files(json.loads(self._read(_REPLACED) or "[]"))

    def wrote(self, folder: str, files: Sequence[StoredFile]) -> None:
        """Note the new files, just before the swap."""
        self._write(_WRITTEN, {"folder": folder, "files": _values(files)})

    def written(self) -> Written | None:
        """The new files; None where the swap cannot have come."""
        text = self._read(_WRITTEN)
        found = json.loads(text) if text else None
        return Written(found["folder"], _files(found["files"])) if found else None

    def deletes(self) -> None:
        """Note that the files that are replaced, or copies in their place, are deleted from now on."""
        if self.has_returned():
            self._warehouse.delete(f"{self._folder}/{_RETURNED}")
        if not self.has_deleted():
            self._write(_DELETES, True)

    def has_deleted(self) -> bool:
        """Whether files that were to be replaced, and are not there, may have been deleted by the rewrite itself."""
        return _DELETES in self._warehouse.names(self._folder)

    def returned(self) -> None:
        """Note that the partition's own folder has had copies of all its files."""
        self._write(_RETURNED, True)

    def has_returned(self) -> bool:
        """Whether a partition that lies in its own folder has its rows there, whatever has become of the copies."""
        return _RETURNED in self._warehouse.names(self._folder)

    def _write(self, name: str, value: object) -> None:
        self._warehouse.write_text(f"{self._folder}/{name}", json.dumps(value))

    def _read(self, name: str) -> str:
        return self._warehouse.read_text(f"{self._folder}/{name}")


def _values(files: Sequence[StoredFile]) -> list[tuple[str, int, int]]:
    return [(file.name, file.size, file.modified) for file in files]


def _files(values: Sequence[tuple[str, int, int]]) -> tuple[StoredFile, ...]:
    return tuple(StoredFile(*value) for value in values)
