"""Define requested config changes, file edits and refused changes, and compare and format config values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml


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


def in_yaml(value: object) -> str:
    """Format a value as YAML on one line, which is also valid inside flow lists and flow mappings."""
    value = list(value) if isinstance(value, tuple) else value
    plain, quoted = (
        str(
            yaml.safe_dump(
                [value],
                default_flow_style=True,
                default_style=style,
                allow_unicode=True,
                sort_keys=False,
                width=float("inf"),
            )
        ).strip()[1:-1]
        for style in (None, '"')
    )
    # YAML escapes line breaks only in double quotes.
    return quoted if "\n" in plain else plain


def line_end(text: str) -> str:
    """Return the line ending that the first line of a text has."""
    first = text.partition("\n")[0]
    return "\r\n" if first.endswith("\r") and "\n" in text else "\n"
