"""Values of configs: when two are the same, and how one is written; and what ends lines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import yaml


def same(left: object, right: object) -> bool:
    """Whether two values are one: 1 is not True and not 1.0, but a tuple is the list of its members."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    # Of NaN only the text equals itself.
    return type(left) is type(right) and repr(left) == repr(right)


def in_jinja(value: object, quote: str = "'", capital: bool = False) -> str:
    """A literal of Jinja.

    Args:
        value: None, a boolean, number or text, or a list or mapping of these.
        quote: what text is written in.
        capital: True and False rather than true and false.

    Raises:
        TypeError: a value of another type.
    """
    if value is None:
        return "None" if capital else "none"
    if isinstance(value, bool):
        return str(value) if capital else str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        # Jinja reads the escapes of Python's strings; those of JSON are among them.
        escaped = json.dumps(value, ensure_ascii=False)[1:-1].replace('\\"', '"')
        return quote + escaped.replace(quote, "\\" + quote) + quote
    if isinstance(value, Mapping):
        pairs = (f"{in_jinja(key, quote, capital)}: {in_jinja(one, quote, capital)}" for key, one in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(in_jinja(one, quote, capital) for one in value) + "]"
    raise TypeError(f"A config cannot hold {value!r}.")


def in_yaml(value: object, quote: str | None = None) -> str:
    """A value on one line of YAML, good within lists and mappings in brackets as well.

    Args:
        value: None, a boolean, number or text, or a list or mapping of these.
        quote: what text is written in; None for quotes where it needs them.
    """
    if isinstance(value, tuple):
        value = list(value)
    text = _dumped(value, quote if isinstance(value, str) else None)
    # Only in double quotes a line end is written as an escape.
    return _dumped(value, '"') if "\n" in text else text


def _dumped(value: object, quote: str | None) -> str:
    text: str = yaml.safe_dump(
        [value],
        default_flow_style=True,
        default_style=quote,
        allow_unicode=True,
        sort_keys=False,
        width=float("inf"),
    )
    return text.strip()[1:-1]


def line_end(text: str) -> str:
    """What ends a text's first line."""
    first = text.partition("\n")[0]
    return "\r\n" if first.endswith("\r") and "\n" in text else "\n"
