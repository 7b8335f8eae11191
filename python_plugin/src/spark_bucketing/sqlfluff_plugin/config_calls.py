"""Read the config() calls in a model's source, with their positions.

Rendering removes config(), so this module reads the source with Jinja's lexer. A value that is not a literal is
unknown. The module ignores a call inside a block such as `{% if %}`, because dbt may not run it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from jinja2 import Environment, TemplateError
from jinja2.nodes import Expr, Output

from spark_bucketing.config.values import UNKNOWN


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


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int

    @property
    def stop(self) -> int:
        return self.start + len(self.text)


_OPENING, _CLOSING = "([{", ")]}"


def config_calls(source: str) -> ConfigCalls:
    """Read the config() calls of a file.

    Return no settings if Jinja cannot tokenize the file.
    """
    if "config" not in source:
        return ConfigCalls()
    try:
        tokens = [token for token in _tokens(source) if token.kind != "whitespace"]
    except TemplateError:
        return ConfigCalls(open=True)
    settings: dict[str, Setting] = {}
    call: slice | None = None
    unsure = False
    depth = 0
    for place, token in enumerate(tokens):
        depth += _block_depth(tokens, place)
        if not _is_config(tokens, place):
            continue
        end = _closing(tokens, place + 1)
        if depth > 0 or end is None:
            unsure = True
            continue
        call = call or slice(token.start, tokens[end].stop)
        for argument in _arguments(tokens[place + 2 : end]):
            found = _setting(argument, source)
            unsure = unsure or found is None
            settings.update([found] if found else [])
    return ConfigCalls(settings, call, unsure)


@cache
def _environment() -> Environment:
    return Environment(extensions=["jinja2.ext.do"])  # noqa: S701  (nothing is rendered)


def _tokens(source: str) -> Iterator[_Token]:
    start = 0
    for _, kind, text in _environment().lex(source):
        # Jinja's whitespace control removes text that no token contains.
        start = source.find(text, start)
        if start < 0:
            return
        yield _Token(kind, text, start)
        start += len(text)


def _block_depth(tokens: list[_Token], place: int) -> int:
    """Return 1 where a block opens, -1 where it closes, and 0 elsewhere.

    Statements `set` and `do` without an end tag do not open a block.
    """
    if place == 0 or tokens[place - 1].kind != "block_begin" or tokens[place].kind != "name":
        return 0
    word = tokens[place].text
    if word.startswith("end") and word != "endset":
        return -1
    return int(word in ("if", "for", "macro", "call", "filter", "test", "snapshot", "materialization", "raw", "block"))


def _is_config(tokens: list[_Token], place: int) -> bool:
    """Return whether a call of `config` starts at this token.

    A method call such as `model.config(` does not count.
    """
    named = tokens[place].kind == "name" and tokens[place].text == "config"
    called = place + 1 < len(tokens) and tokens[place + 1].text == "("
    return named and called and not (place and tokens[place - 1].text == ".")


def _closing(tokens: list[_Token], opening: int) -> int | None:
    depth = 0
    for place in range(opening, len(tokens)):
        token = tokens[place]
        if token.kind == "operator":
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
            if depth == 0:
                return place
    return None


def _arguments(tokens: list[_Token]) -> Iterator[list[_Token]]:
    depth, argument = 0, list[_Token]()
    for token in tokens:
        if token.kind == "operator":
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
            if token.text == "," and depth == 0:
                yield argument
                argument = []
                continue
        argument.append(token)
    if argument:
        yield argument


def _setting(argument: list[_Token], source: str) -> tuple[str, Setting] | None:
    """Return the key and the value of an argument, or None if it does not have the form `key=value`."""
    if len(argument) < 3 or argument[0].kind != "name" or argument[1].text != "=":
        return None
    key, whole = argument[0], slice(argument[0].start, argument[-1].stop)
    value = _literal(source[argument[2].start : whole.stop])
    return key.text, Setting(value, slice(key.start, key.stop), whole)


def _literal(text: str) -> Any:
    try:
        output = _environment().parse("{{ (" + text + ") }}").body[0]
        expression = output.nodes[0] if isinstance(output, Output) else None
        return expression.as_const() if isinstance(expression, Expr) else UNKNOWN
    # A filter on a literal may raise any exception. For a name, jinja2 raises Impossible.
    except Exception:
        return UNKNOWN
