"""Read the config() calls in a model's source, with their positions.

Rendering removes config(), so this module reads the source with Jinja's lexer. A value that is not a literal is
unknown. The module ignores a call inside a block such as `{% if %}`, because dbt may not run it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import TemplateError
from jinja2.nodes import Expr, Output

from spark_bucketing.config.values import UNKNOWN
from spark_bucketing.edits.config_changes import CannotEditError
from spark_bucketing.edits.sql_config import Token, environment, is_config_call, split, tokens, within


@dataclass(frozen=True)
class Setting:
    """The value of a setting, with the positions of its key and of the whole argument in the source."""

    value: Any
    key: slice
    whole: slice


@dataclass(frozen=True)
class ConfigCalls:
    """The settings in all config() calls of a file.

    If several calls set the same key, the last one takes precedence.
    """

    settings: Mapping[str, Setting] = field(default_factory=dict)
    # Position of the first call, from its name to its closing parenthesis; None if there is no call.
    call: slice | None = None
    # Whether the file may set other keys, in a call inside a block or in a call with `**`.
    open: bool = False

    @property
    def values(self) -> dict[str, Any]:
        """Return the values of the settings by key.

        A value may be UNKNOWN.
        """
        return {key: setting.value for key, setting in self.settings.items()}


def config_calls(source: str) -> ConfigCalls:
    """Read the config() calls of a file.

    Return no settings if Jinja cannot tokenize the file.
    """
    if "config" not in source:
        return ConfigCalls()
    try:
        found = [token for token in tokens(source) if token.kind != "whitespace"]
    except (TemplateError, CannotEditError):
        return ConfigCalls(open=True)
    settings: dict[str, Setting] = {}
    call: slice | None = None
    unsure = False
    depth = 0
    for place, token in enumerate(found):
        depth += _block_depth(found, place)
        if not is_config_call(found, place):
            continue
        inner = within(found[place + 1 :])
        if depth > 0 or not inner:
            unsure = True
            continue
        call = call or slice(token.start, inner[-1].end)
        for argument in split(inner[1:-1]):
            setting = _setting(argument, source)
            unsure = unsure or setting is None
            settings.update([setting] if setting else [])
    return ConfigCalls(settings, call, unsure)


def _block_depth(found: Sequence[Token], place: int) -> int:
    """Return 1 where a block opens, -1 where it closes, and 0 elsewhere.

    Statements `set` and `do` without an end tag do not open a block.
    """
    if place == 0 or found[place - 1].kind != "block_begin" or found[place].kind != "name":
        return 0
    word = found[place].text
    if word.startswith("end") and word != "endset":
        return -1
    return int(word in ("if", "for", "macro", "call", "filter", "test", "snapshot", "materialization", "raw", "block"))


def _setting(argument: Sequence[Token], source: str) -> tuple[str, Setting] | None:
    """Return the key and the value of an argument, or None if it does not have the form `key=value`."""
    if len(argument) < 3 or argument[0].kind != "name" or argument[1].text != "=":
        return None
    key, whole = argument[0], slice(argument[0].start, argument[-1].end)
    value = _literal(source[argument[2].start : whole.stop])
    return key.text, Setting(value, slice(key.start, key.end), whole)


def _literal(text: str) -> Any:
    try:
        output = environment().parse("{{ (" + text + ") }}").body[0]
        expression = output.nodes[0] if isinstance(output, Output) else None
        return expression.as_const() if isinstance(expression, Expr) else UNKNOWN
    # A filter on a literal may raise any exception. For a name, jinja2 raises Impossible.
    except Exception:
        return UNKNOWN
