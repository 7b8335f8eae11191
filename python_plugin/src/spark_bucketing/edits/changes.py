"""Define requested config changes, the edits that implement them, and refusals of unsafe changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ConfigChange:
    """The new values of one model's config keys."""

    model: str  # unique id in the manifest
    config: Mapping[str, object]  # values by key; None removes the key


@dataclass(frozen=True)
class FileEdit:
    """The text of one file before and after an edit, including BOM and line endings."""

    path: Path  # relative to the project directory
    before: str
    after: str
    models: tuple[str, ...]  # unique ids of the models whose configs it changes
    notes: tuple[str, ...] = ()  # other places that set these keys and that this file overrides


@dataclass(frozen=True)
class Refusal:
    """A change that only the user can make safely."""

    model: str  # unique id
    reason: str  # the reason for the refusal, as a sentence
    instead: str  # the config to write by hand


class CannotEditError(Exception):
    """Raised if a config cannot be edited safely; the text states the reason as a sentence."""
