"""What is asked for, what comes of it, and what cannot be done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ConfigChange:
    """Keys of one model's config, as they are to be."""

    model: str  # its unique id in the manifest
    config: Mapping[str, object]  # values by keys; None takes a key away


@dataclass(frozen=True)
class FileEdit:
    """The text of one file, with its BOM and line ends, before and after."""

    path: Path  # relative to the project's folder
    before: str
    after: str
    models: tuple[str, ...]  # unique ids of the models whose configs are changed in it
    notes: tuple[str, ...] = ()  # what else decides about these configs, and does not any more


@dataclass(frozen=True)
class Refusal:
    """A change that nobody but the user can make safely."""

    model: str  # its unique id
    reason: str  # what was found, as a sentence
    instead: str  # what to write by hand


class CannotEditError(Exception):
    """A config that is not edited; its text says what was found, as a sentence."""
