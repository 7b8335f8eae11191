"""Edit keys in the config() call in a model's SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping

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


def edit_sql(text: str, wanted: Mapping[str, object]) -> str:
    """Return a model's SQL after setting these keys in its config() call, or in a new call at the top of the file.

    Args:
        text: text of the file.
        wanted: new values by key; None removes the key.

    Raises:
        CannotEditError: the edit is not safe.
    """
    call = find_config(text)
    after = _with_arguments(call, wanted) if call else _with_new_block(text, wanted)
    _verify(text, after, wanted)
    return after


def _with_arguments(call: ConfigCall, wanted: Mapping[str, object]) -> str:
    """Return the text of the whole file after setting these keys in the call.

    The text between two arguments that remain does not change. New arguments are appended, with the same separator as
    between the last two arguments.
    """
    found = {key: literal(key, call.values[key]) for key in wanted if key in call.values}
    style = _Style(call)
    parts: list[tuple[str, str]] = []  # the text before an argument, and the argument
    before = call.start
    for one in call.arguments:
        separator = call.text[before : one.start]
        before = one.end
        if one.key in wanted and wanted[one.key] is None:
            continue
        text = call.text[one.start : one.end]
        if one.key in wanted and not same(wanted[one.key], found[one.key]):
            old = call.text[one.value_start : one.end]
            text = call.text[one.start : one.value_start] + style.value(wanted[one.key], old)
        parts.append((separator, text))
    new = {key: value for key, value in wanted.items() if value is not None and key not in call.values}
    parts += [(_separator(call), style.argument(key, value)) for key, value in new.items()]
    if not parts:
        return call.text[: call.start] + call.text[call.end :]
    first = call.arguments[0].start if call.arguments else call.end
    body = "".join(part if number == 0 else separator + part for number, (separator, part) in enumerate(parts))
    tail = call.text[before : call.end] if call.arguments else ""
    return call.text[:first] + body + tail + call.text[call.end :]


def _separator(call: ConfigCall) -> str:
    """Return the text between two arguments: the comma, and the spaces or the line ending next to it."""
    if len(call.arguments) > 1:
        return call.text[call.arguments[-2].end : call.arguments[-1].start]
    before = call.text[call.start : call.arguments[0].start] if call.arguments else ""
    return "," + before if "\n" in before else ", "


class _Style:
    """The style of a config() call: its quotes, its booleans, and the separators between keys and values."""

    def __init__(self, call: ConfigCall) -> None:
        self._is_mapping = call.is_mapping
        # The keys of a mapping are strings, too.
        first = [token.text[0] for token in call.tokens if token.kind == "string"]
        self._quote = '"' if first.count('"') > first.count("'") else "'"
        self._capital = any(token.kind == "name" and token.text in ("True", "False", "None") for token in call.tokens)
        self._assignment = ": " if self._is_mapping else "="
        for first_argument in call.arguments[:1]:
            sign = _ASSIGNMENT.search(call.text[first_argument.start : first_argument.value_start])
            self._assignment = sign[0] if sign else self._assignment

    def value(self, value: object, old: str) -> str:
        quotes = [sign for sign in old if sign in "'\""]
        return in_jinja(value, quotes[0] if quotes else self._quote, self._capital)

    def argument(self, key: str, value: object) -> str:
        name = in_jinja(key, self._quote) if self._is_mapping else key
        return f"{name}{self._assignment}{in_jinja(value, self._quote, self._capital)}"


def _with_new_block(text: str, wanted: Mapping[str, object]) -> str:
    if all(value is None for value in wanted.values()):
        return text
    end = line_end(text)
    bom, rest = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    empty_line = "" if rest.startswith(("\n", "\r")) else end
    return f"{bom}{config_block(wanted, end)}{end}{empty_line}{rest}"


def _verify(before: str, after: str, wanted: Mapping[str, object]) -> None:
    """Raise an error unless the requested keys have their new values and everything else is unchanged."""
    left, right = find_config(before), find_config(after)
    new = right.values if right else {}
    right_values = all(
        key in new and same(literal(key, new[key]), value) for key, value in wanted.items() if value is not None
    )
    old, others = (
        {key: value for key, value in call.values.items() if key not in wanted} if call else {}
        for call in (left, right)
    )
    if not (right_values and old == others and _outside(before, after, left, right)):
        raise CannotEditError("The model's config() call would have unexpected content after the edit.")
    if any(key in new for key, value in wanted.items() if value is None):
        raise CannotEditError("The model's config() call would still set a key that the edit removes.")


def _outside(before: str, after: str, left: ConfigCall | None, right: ConfigCall | None) -> bool:
    """Return whether two versions of a file differ in nothing except the arguments of config()."""
    if left and right:
        return (before[: left.start], before[left.end :]) == (after[: right.start], after[right.end :])
    if right:
        return after.endswith(before.removeprefix(_BOM)) and after.startswith(_BOM) == before.startswith(_BOM)
    return before == after
