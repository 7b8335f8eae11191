"""What may happen to a rewrite: deaths before each of its steps, and writers and other runs between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from spark_bucketing.evolution.owner import Owner
from spark_bucketing.evolution.warehouse import Warehouse

# What a run does to the metastore or the files for one partition, with a word of each.
STEPS = {
    "create": "create",
    "insert": "insert",
    "make folder": "make_folder",
    "record without buckets": "not clustered",
    "swap": "set location",
    "record": "clustered by",
    "copy": "copy",
    "delete old folder": "clear",
    "rename copy": "rename",
    "swap back": "set location",
    "record again": "clustered by",
    "delete new folder": "clear",
    "delete hidden folder": "delete",
    "drop": "drop",
}


def steps_before(moment: str) -> int:
    """How many steps come first."""
    return list(STEPS).index(moment)


class Died(Exception):
    """The process is dead."""


def half_deleted(folder: str, *_: object) -> None:
    next(iter(sorted(Path(folder.removeprefix("file:")).glob("0*")))).unlink()


def half_copied(folder: str, target: str) -> None:
    Path(target.removeprefix("file:")).mkdir()
    path = next(iter(sorted(Path(folder.removeprefix("file:")).glob("0*"))))
    (Path(target.removeprefix("file:")) / path.name).write_bytes(path.read_bytes()[:40])


def half_renamed(folder: str, target: str) -> None:
    """On object stores a folder is renamed file by file."""
    Path(target.removeprefix("file:")).mkdir()
    path = next(iter(sorted(Path(folder.removeprefix("file:")).glob("0*"))))
    path.rename(Path(target.removeprefix("file:")) / path.name)


# Deaths within a step: which one, and what is done of it.
WITHIN: dict[str, tuple[str, Callable[..., None]]] = {
    "half deleted": ("delete old folder", half_deleted),
    "half copied": ("copy", half_copied),
    "half renamed": ("rename copy", half_renamed),
    "half cleared up": ("delete new folder", half_deleted),
}


@contextmanager
def dying(
    monkeypatch: pytest.MonkeyPatch,
    before: int | None,
    last_act: Callable[..., None] = lambda *_: None,
    of: str | None = None,
) -> Iterator[list[str]]:
    """Record what is changed; die before one of the changes, or within it, and let nothing happen after that.

    Args:
        monkeypatch: takes everything back in the end.
        before: how many changes there are first; None for all.
        last_act: what is done of the next one.
        of: the kind of change that this is, when it is done of no other.
    """
    done: list[str] = []

    def watched(name: str) -> Callable[..., None]:
        real = getattr(Warehouse, name)

        def act(self: Warehouse, *what: Any) -> Any:
            if before is not None and len(done) >= before:
                if len(done) == before and of in (None, name):
                    # There is no half of no files.
                    with suppress(StopIteration):
                        last_act(*what)
                done.append("dead")
                raise Died(*what)
            done.append(f"{name} {what[0]}")
            return real(self, *what)

        return act

    with monkeypatch.context() as patched:
        for name in ("change", "clear", "copy", "delete", "make_folder", "rename"):
            patched.setattr(Warehouse, name, watched(name))
        yield done


@contextmanager
def meanwhile(
    monkeypatch: pytest.MonkeyPatch, step: str, act: Callable[[], object], time: int = 1, after: bool = False
) -> Iterator[None]:
    """Something else happens just before or after a step of a rewrite, the first time that it comes, or another one."""
    seen: list[str] = []

    def watched(name: str) -> Callable[..., None]:
        real = getattr(Warehouse, name)

        def done(self: Warehouse, *what: Any) -> Any:
            now = step in f"{name} {what[0]}"
            if now:
                seen.append(step)
            if now and len(seen) == time and not after:
                act()
            result = real(self, *what)
            if now and len(seen) == time and after:
                act()
            return result

        return done

    with monkeypatch.context() as patched:
        for name in ("change", "clear", "copy", "delete", "make_folder", "rename"):
            patched.setattr(Warehouse, name, watched(name))
        yield
    assert len(seen) >= time


def owned(monkeypatch: pytest.MonkeyPatch, owner: Owner) -> None:
    monkeypatch.setattr(Owner, "current", staticmethod(lambda: owner))
