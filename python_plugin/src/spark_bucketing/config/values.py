"""Validate the value of a single config key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from spark_bucketing.config.schema import Key
from spark_bucketing.errors import error_message
from spark_bucketing.units import parse_size


class Unknown:
    """A value that is unknown here, because only dbt can evaluate it."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Violation:
    """A violation of the config schema or of another lint rule."""

    key: str  # the config key to report; it may be missing
    found: str
    expected: str
    instead: str
    rule: str = "invalid-config"  # name of the lint rule
    meant: str | None = None  # the correct key for a misspelled key
    warns: bool = False  # whether dbt only warns about it

    def message(self, model: str) -> str:
        """Return the error message that dbt prints when it runs the model."""
        of = f"`{self.key}` in the config of model `{model}`; did you mean `{self.meant}`?"
        title = f"Unknown key {of}" if self.meant else f"Model `{model}` has an invalid `{self.key}`."
        return error_message(title, self.found, self.expected, self.instead)

    @property
    def sentence(self) -> str:
        """Return the message as a single line."""
        if self.meant:
            return f"Unknown config key `{self.key}`; did you mean `{self.meant}`?"
        return f"Found {self.found} in `{self.key}`; expected {self.expected}. Instead: {self.instead}."


def parse_value(key: str, spec: Key, value: Any, found: list[Violation]) -> Any:
    """Normalize a value.

    If the value is invalid, return UNKNOWN and add a violation to `found`.
    """
    if value is UNKNOWN or value is None or (spec.lenient and not value):
        return UNKNOWN if value is UNKNOWN else spec.default
    try:
        return _PARSERS[spec.type](key, spec, value)
    except _Invalid as invalid:
        found.append(invalid.violation)
        return UNKNOWN


class _Invalid(Exception):
    def __init__(self, key: str, spec: Key, found: object, instead: str = "", expected: str = "") -> None:
        super().__init__(key)
        self.violation = Violation(key, str(found), expected or spec.expected, instead or f"{key}={spec.example}")


def _columns(key: str, spec: Key, value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)):
        raise _Invalid(key, spec, value)
    distinct: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise _Invalid(key, spec, names, expected="column names, each a non-empty string")
        if name.lower() in distinct and not spec.lenient:
            raise _Invalid(key, spec, names, f"remove the second `{name}`", "each column once")
        distinct.setdefault(name.lower(), name)
    if spec.maximum and len(distinct) > spec.maximum:
        raise _Invalid(key, spec, names, f"{key}='{next(iter(distinct.values()))}'")
    return list(distinct.values())


def _integer(key: str, spec: Key, value: Any) -> int:
    assert spec.minimum is not None  # noqa: S101  (every integer has limits)
    assert spec.maximum is not None  # noqa: S101
    if not isinstance(value, int) or isinstance(value, bool) or not spec.minimum <= value <= spec.maximum:
        text = value.strip() if isinstance(value, str) else ""
        meant = re.fullmatch("[0-9]{1,9}", text) and spec.minimum <= int(text) <= spec.maximum
        raise _Invalid(key, spec, _found(value), f"{key}={int(text)}" if meant else "")
    return value


def _number(key: str, spec: Key, value: Any) -> float:
    valid = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not valid or not (spec.minimum or 0) < value <= (spec.maximum or value):
        raise _Invalid(key, spec, _found(value))
    return float(value) if isinstance(value, float) else int(value)


def _size(key: str, spec: Key, value: Any) -> int:
    try:
        size = parse_size(value)
    except ValueError:
        size = 0
    if size < 1:
        text = re.match("^ *([0-9.]+) *([kmgt])(?:b|ib|bytes)? *$", str(value).lower())
        meant = f"{key}='{text[1]}{text[2].upper()}iB'" if text else ""
        raise _Invalid(key, spec, f"'{value}'" if isinstance(value, str) else value, meant)
    return size


def _choice(key: str, spec: Key, value: Any) -> str:
    if not isinstance(value, str) or value.lower() not in spec.choices:
        near = spec.aliases.get(str(value).lower()) or nearest_name(str(value), spec.choices)
        raise _Invalid(key, spec, value, f"{key}='{near or spec.default or spec.choices[0]}'")
    return value.lower()


def _mapping(key: str, spec: Key, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _Invalid(key, spec, value)
    for name, entry in value.items():
        if not isinstance(name, str) or not isinstance(entry, (str, int, float)):
            expected = "string keys with values that are strings, numbers or booleans"
            raise _Invalid(key, spec, f"{name}: {entry}", expected=expected)
        for pattern, allowed, expected, instead in spec.refused:
            if re.match(pattern, name) and str(entry) != allowed:
                raise _Invalid(key, spec, f"{name} = {entry}", instead.format(name=name), expected)
    return value


def _text(key: str, spec: Key, value: Any) -> str:
    if not isinstance(value, str) or not re.match(spec.pattern, value):
        raise _Invalid(key, spec, value)
    return value.strip()


def _date(key: str, spec: Key, value: Any) -> str:
    return _text(key, spec, str(value))


def _boolean(key: str, spec: Key, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Invalid(key, spec, value)
    return value


def _any(_: str, __: Key, value: Any) -> Any:
    return value


_PARSERS: Mapping[str, Callable[[str, Key, Any], Any]] = {
    "columns": _columns, "integer": _integer, "number": _number, "size": _size, "choice": _choice,
    "mapping": _mapping, "text": _text, "date": _date, "boolean": _boolean, "any": _any,
}  # fmt: skip


def _found(value: Any) -> str:
    return f"'{value}' (a string)" if isinstance(value, str) else str(value)


def nearest_name(word: str, names: Iterable[str], within: int = 2) -> str | None:
    """Return the name that a word probably misspells, or None if no name is similar.

    Two names are similar if they are equal after removing a few letters from each: at most one letter for every three.
    The macro nearest_name() uses the same rule. The ratio in Python's difflib would consider other words similar.

    Args:
        word: the possibly misspelled word.
        names: the valid names.
        within: the maximum number of letters to remove from each of the two names.
    """
    for letters in range(within + 1):
        shortened = _shortened(word, letters)
        for name in names:
            if letters <= len(_plain(name)) // 3 and shortened & _shortened(name, letters):
                return name
    return None


def _plain(word: str) -> str:
    return re.sub("[^a-z0-9]", "", word.lower())


def _shortened(word: str, letters: int) -> set[tuple[str, ...]]:
    plain = _plain(word)
    return {kept for most in range(letters + 1) for kept in combinations(plain, max(len(plain) - most, 0))}
