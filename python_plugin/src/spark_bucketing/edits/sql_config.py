"""Read config() calls in a model's SQL with their positions, and edit the arguments of a call.

Rendering removes config(), so this module reads the source with Jinja's lexer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jinja2 import Environment, TemplateError
from jinja2.nodes import Expr, Output

from spark_bucketing.config.validation import UNKNOWN
from spark_bucketing.edits.file_edits import CannotEditError, in_jinja, line_end, same

_BLOCKS = ("if", "for", "macro", "call", "filter", "test", "snapshot", "materialization", "raw", "block")
_BOM = "\ufeff"
_LONGEST_LINE = 80


class Token(NamedTuple):
    """A token of Jinja's lexer, with its position in the text."""

    kind: str
    text: str
    span: slice


@dataclass(frozen=True)
class Argument:
    """An argument, with the positions of its key and its value in the text."""

    value: Any  # UNKNOWN unless it is a literal
    key: slice
    written: slice  # the value

    @property
    def whole(self) -> slice:
        """Return the position of the argument."""
        return slice(self.key.start, self.written.stop)


@dataclass(frozen=True)
class ConfigCalls:
    """The arguments of all config() calls outside blocks such as {% if %}, which dbt may not run.

    If several calls set the same key, the last one takes precedence.
    """

    settings: Mapping[str, Argument] = field(default_factory=dict)
    call: slice | None = None  # position of the first call, from its name to its closing parenthesis
    inner: slice = field(default_factory=lambda: slice(0, 0))  # position of the arguments of the first call
    open: str = ""  # why dbt may set other keys or values; empty if it cannot
    number: int = 0  # of calls
    is_mapping: bool = False  # whether the arguments are config({...}) instead of config(key=value)

    @property
    def values(self) -> dict[str, Any]:
        """Return the values by key."""
        return {key: setting.value for key, setting in self.settings.items()}


# It can parse all files that dbt can render.
_ENVIRONMENT = Environment(extensions=["jinja2.ext.do"], keep_trailing_newline=True)  # noqa: S701


def _tokens(text: str) -> Iterator[Token]:
    """Return the tokens of a file without spaces.

    Jinja's lexer normalizes line endings and drops spaces next to a dash. Therefore, this function first replaces each
    line ending with characters of the same length, and skips the spaces that the lexer dropped.
    """
    text = text.replace("\r\n", " \n").replace("\r", "\n")
    position = 0
    for _, kind, part in _ENVIRONMENT.lex(text):
        while not text.startswith(part, position):
            position += 1
        if kind != "whitespace":
            yield Token(kind, part, slice(position, position + len(part)))
        position += len(part)


def config_calls(source: str) -> ConfigCalls:
    """Read the config() calls of a file."""
    if "config" not in source:
        return ConfigCalls()
    try:
        tokens = list(_tokens(source))
    except TemplateError as error:
        return ConfigCalls(open=f"Jinja cannot parse the model's SQL: {error}.")
    settings: dict[str, Argument] = {}
    call, inner, is_mapping, is_open, number, depth = None, slice(0, 0), False, "", 0, 0
    for place, token in enumerate(tokens):
        depth += _block_depth(tokens, place)
        if (token.kind, token.text) != ("name", "config") or tokens[place - 1].text == ".":
            continue
        after = [one.text for one in tokens[place + 1 : place + 4]]
        if after[:1] != ["("] and after != [".", "set", "("]:
            continue
        number += 1
        arguments, length = _arguments(tokens[place + 1 :])
        if depth or not _is_statement(tokens, place, length):
            is_open = "The model's SQL calls config() inside other Jinja, such as a condition, a loop or a macro."
            continue
        call = call or slice(token.span.start, tokens[place + length].span.stop)
        inner = slice(tokens[place + 1].span.stop, tokens[place + length].span.start)
        first = arguments[0] if arguments else []
        is_mapping = len(arguments) == 1 and first[0].text == "{" and _arguments(first)[1] == len(first)
        if is_mapping:
            inner, arguments = slice(first[0].span.stop, first[-1].span.start), _arguments(first)[0]
        for part in arguments:
            key, argument = _argument(part, source, is_mapping)
            if argument is None:
                is_open = "The model's config() call has positional arguments, or takes arguments from a variable."
                continue
            is_open = "The model's SQL sets a config key twice." if key in settings and number == 1 else is_open
            settings[key] = argument
    return ConfigCalls(settings, call, inner, is_open, number, is_mapping)


def _block_depth(tokens: Sequence[Token], place: int) -> int:
    """Return 1 where a block opens, -1 where it closes, and 0 elsewhere.

    Statements `set` and `do` without an end tag do not open a block.
    """
    if place == 0 or tokens[place - 1].kind != "block_begin" or tokens[place].kind != "name":
        return 0
    word = tokens[place].text
    if word.startswith("end") and word != "endset":
        return -1
    return int(word in _BLOCKS)


def _is_statement(tokens: Sequence[Token], place: int, length: int) -> bool:
    """Return whether a call with brackets of this length is the only content of {{ }} or {% do %}."""
    before = [(one.kind, one.text) for one in tokens[max(place - 2, 0) : place]]
    after = tokens[place + length + 1].kind if length and place + length + 1 < len(tokens) else ""
    is_expression = before[-1:] and before[-1][0] == "variable_begin" and after == "variable_end"
    is_do = before[-1:] == [("name", "do")] and before[0][0] == "block_begin" and after == "block_end"
    return bool(is_expression or is_do)


def _arguments(tokens: Sequence[Token]) -> tuple[list[list[Token]], int]:
    """Return the tokens of each argument between brackets, and the number of all tokens up to the closing bracket."""
    arguments: list[list[Token]] = [[]]
    depth = 0
    for number, token in enumerate(tokens):
        if token.kind == "operator":
            depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0:
            return [part for part in arguments if part], number + 1
        if depth == 1 and token.text == ",":
            arguments.append([])
        elif number > 0:
            arguments[-1].append(token)
    return [], 0


def _argument(part: Sequence[Token], source: str, is_mapping: bool) -> tuple[str, Argument | None]:
    """Return the key and the argument, or None if it does not have the form `key=value`."""
    if len(part) < 3 or (part[0].kind, part[1].text) != (("string", ":") if is_mapping else ("name", "=")):
        return "", None
    key, written = part[0].span, slice(part[2].span.start, part[-1].span.stop)
    name = str(_literal(part[0].text)) if is_mapping else part[0].text
    return name, Argument(_literal(source[written]), key, written)


def _literal(text: str) -> Any:
    try:
        output = _ENVIRONMENT.parse("{{ (" + text + ") }}").body[0]
        expression = output.nodes[0] if isinstance(output, Output) else None
        return expression.as_const() if isinstance(expression, Expr) else UNKNOWN
    # A filter on a literal may raise any exception. For a name, jinja2 raises Impossible.
    except Exception:
        return UNKNOWN


def config_block(config: Mapping[str, object], line_end: str = "\n") -> str:
    """Format a config() call, on one line if it is short."""
    pairs = [f"{key}={in_jinja(value)}" for key, value in config.items()]
    block = f"{{{{ config({', '.join(pairs)}) }}}}"
    if len(block) <= _LONGEST_LINE:
        return block
    lines = ["{{", "    config(", ",\n".join(" " * 8 + pair for pair in pairs), "    )", "}}"]
    return "\n".join(lines).replace("\n", line_end)


def edit_sql(text: str, wanted: Mapping[str, object]) -> str:
    """Return a model's SQL after setting these keys in its config() call, or in a new call at the top of the file."""
    calls = _editable(text)
    for key in wanted.keys() & calls.settings.keys():
        if calls.settings[key].value is UNKNOWN:
            raise CannotEditError(f"The model's config() call sets {key} with a Jinja expression.")
    after = _with_arguments(text, calls, wanted) if calls.call else _with_new_block(text, wanted)
    _verify(text, after, wanted)
    return after


def _editable(text: str) -> ConfigCalls:
    calls = config_calls(text)
    try:
        _ENVIRONMENT.parse(text)
    except TemplateError as error:
        raise CannotEditError(f"Jinja cannot parse the model's SQL: {error}.") from error
    if calls.number > 1:
        raise CannotEditError(f"The model's SQL calls config() {calls.number} times.")
    if calls.open:
        raise CannotEditError(calls.open)
    return calls


def _with_arguments(text: str, calls: ConfigCalls, wanted: Mapping[str, object]) -> str:
    """Return the text of the whole file after setting these keys in the call.

    New arguments are appended in the style of the first argument, with the same separator as between the last two
    arguments. All other text stays the same.
    """
    arguments = list(calls.settings.items())
    quote = next((sign for sign in text[calls.inner] if sign in "'\""), "'")
    sign = next((text[one.key.stop : one.written.start] for _, one in arguments), ": " if calls.is_mapping else "=")
    wholes = [one.whole for _, one in arguments] or [slice(calls.inner.stop, calls.inner.stop)]
    opening = text[calls.inner.start : wholes[0].start]
    separator = ", " if "\n" not in opening or not arguments else f",{opening}"
    if len(arguments) > 1:
        separator = text[wholes[-2].stop : wholes[-1].start]
    added = [
        f"{in_jinja(key, quote) if calls.is_mapping else key}{sign}{in_jinja(value, quote)}"
        for key, value in wanted.items()
        if key not in calls.settings
    ]
    end = wholes[-1].stop
    after = text[:end] + separator.join(["", *added] if arguments else added) + text[end:]
    for key, one in reversed(arguments):
        if key in wanted and not same(wanted[key], one.value):
            old = next((sign for sign in text[one.written] if sign in "'\""), quote)
            after = after[: one.written.start] + in_jinja(wanted[key], old) + after[one.written.stop :]
    return after


def _with_new_block(text: str, wanted: Mapping[str, object]) -> str:
    end = line_end(text)
    bom, rest = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    empty_line = "" if rest.startswith(("\n", "\r")) else end
    return f"{bom}{config_block(wanted, end)}{end}{empty_line}{rest}"


def _verify(before: str, after: str, wanted: Mapping[str, object]) -> None:
    """Raise an error unless the requested keys have their new values and everything else is unchanged."""
    left, right = _editable(before), _editable(after)
    unchanged = [key for key in left.settings if key not in wanted]
    kept, new = (
        [text[: calls.inner.start], text[calls.inner.stop :]]
        + [text[calls.settings[key].written] for key in unchanged if key in calls.settings]
        for text, calls in ((before, left), (after, right))
    )
    if not same(right.values, {**left.values, **wanted}) or (left.call and kept != new):
        raise CannotEditError("The model's config() call would have unexpected content after the edit.")
