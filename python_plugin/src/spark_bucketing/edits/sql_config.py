"""Edit keys in the config() call in a model's SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jinja2 import nodes

from spark_bucketing.edits.config_changes import CannotEditError
from spark_bucketing.edits.jinja import ConfigCall, find_config, literal
from spark_bucketing.edits.literals import in_jinja, line_end, same

_BOM = "\ufeff"
_LONGEST_LINE = 80
_ASSIGNMENT = re.compile(r"[ \t]*[=:][ \t]*$")


def config_block(config: Mapping[str, object], line_end: str = "\n") -> str:
    """Format a config() call, on one line if it is short.

    Keys whose value is None are left out.
    """
    pairs = [f"{key}={in_jinja(value)}" for key, value in config.items() if value is not None]
    block = f"{{{{ config({', '.join(pairs)}) }}}}"
    if len(block) <= _LONGEST_LINE:
        return block
    lines = ["{{", "    config(", ",\n".join(" " * 8 + pair for pair in pairs), "    )", "}}"]
    return "\n".join(lines).replace("\n", line_end)


def set_keys(text: str) -> frozenset[str]:
    """Return the keys that the config() call in a model's SQL sets.

    Raises:
        CannotEditError: the config() call cannot be edited.
    """
    call = find_config(text)
    return frozenset(call.values) if call else frozenset()


def has_config(text: str) -> bool:
    """Return whether a model's SQL has a config() call, even an empty one.

    Raises:
        CannotEditError: the config() call cannot be edited.
    """
    return find_config(text) is not None


def edit_sql(text: str, wanted: Mapping[str, object]) -> str:
    """Return a model's SQL after setting these keys in its config() call, or in a new call at the top of the file.

    Args:
        text: text of the file.
        wanted: new values by key; None removes the key.

    Raises:
        CannotEditError: the edit is not safe.
    """
    call = find_config(text)
    if call is None:
        after = _with_new_block(text, wanted)
    else:
        found = {key: _literal(key, call.values[key]) for key in wanted if key in call.values}
        style = _Style(call)
        after = call.entries.edited(wanted, found, style.value, style.entry)
    _verify(text, after, wanted)
    return after


class _Style:
    """The style of a config() call: its quotes, its booleans, and the separators between keys and values."""

    def __init__(self, call: ConfigCall) -> None:
        self._is_mapping = call.is_mapping
        # The keys of a mapping are strings, too.
        first = [token.text[0] for token in call.tokens if token.kind == "string"]
        self._quote = '"' if first.count('"') > first.count("'") else "'"
        self._capital = any(token.kind == "name" and token.text in ("True", "False", "None") for token in call.tokens)
        self._assignment = ": " if self._is_mapping else "="
        text = call.entries.text
        for entry in call.entries.all[:1]:
            sign = _ASSIGNMENT.search(text[entry.start : entry.value_start])
            self._assignment = sign[0] if sign else self._assignment

    def value(self, value: object, old: str) -> str:
        quotes = [sign for sign in old if sign in "'\""]
        return in_jinja(value, quotes[0] if quotes else self._quote, self._capital)

    def entry(self, key: str, value: object) -> str:
        name = in_jinja(key, self._quote) if self._is_mapping else key
        return f"{name}{self._assignment}{in_jinja(value, self._quote, self._capital)}"


def _literal(key: str, value: nodes.Expr) -> object:
    try:
        return literal(value)
    except CannotEditError as error:
        raise CannotEditError(f"The model's config() call sets {key} with a Jinja expression.") from error


def _with_new_block(text: str, wanted: Mapping[str, object]) -> str:
    if all(value is None for value in wanted.values()):
        return text
    end = line_end(text)
    bom, rest = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    empty_line = "" if rest.startswith(("\n", "\r")) else end
    return f"{bom}{config_block(wanted, end)}{end}{empty_line}{rest}"


def _verify(before: str, after: str, wanted: Mapping[str, object]) -> None:
    """Verify an edited file.

    The requested keys must have their new values, and everything else must be unchanged.

    Raises:
        CannotEditError: the verification failed.
    """
    left, right = find_config(before), find_config(after)
    old = dict(left.values) if left else {}
    new = dict(right.values) if right else {}
    expected = {key: value for key, value in wanted.items() if value is not None}
    right_values = all(key in new and same(literal(new[key]), value) for key, value in expected.items())
    others = {key: value for key, value in new.items() if key not in wanted}
    untouched = others == {key: value for key, value in old.items() if key not in wanted}
    if not (right_values and untouched and new.keys() >= expected.keys() and _outside(before, after)):
        raise CannotEditError("The model's config() call would have unexpected content after the edit.")
    if any(key in new for key, value in wanted.items() if value is None):
        raise CannotEditError("The model's config() call would still set a key that the edit removes.")


def _outside(before: str, after: str) -> bool:
    """Return whether two versions of a file differ in nothing except the arguments of config()."""
    left, right = find_config(before), find_config(after)
    if left is None and right is not None:
        return after.endswith(before.removeprefix(_BOM)) and after.startswith(_BOM) == before.startswith(_BOM)
    if left is None or right is None:
        return before == after
    return _without(left) == _without(right)


def _without(call: ConfigCall) -> tuple[str, str]:
    text = call.entries.text
    return text[: call.entries.start], text[call.entries.end :]
