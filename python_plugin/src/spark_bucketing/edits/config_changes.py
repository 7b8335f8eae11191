"""Define requested config changes, the file edits that implement them, and the changes that are refused as unsafe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ConfigChange:
    """New values for the config keys of one model."""

    model: str  # unique id in the manifest
    config: Mapping[str, object]  # values by key; None removes the key


@dataclass(frozen=True)
class FileEdit:
    """The text of one file before and after an edit, including its BOM and line endings."""

    path: Path  # relative to the project directory
    before: str
    after: str
    models: tuple[str, ...]  # unique ids of the models whose configs it changes
    notes: tuple[str, ...] = ()  # other places that set these keys and that this file overrides


@dataclass(frozen=True)
class Refusal:
    """A requested change that is not made, because only the user can make it safely."""

    model: str  # unique id
    reason: str  # the reason for the refusal, as a sentence
    instead: str  # the config to write by hand


class CannotEditError(Exception):
    """Raised if a config cannot be edited safely.

    The message is a sentence that states the reason.
    """
