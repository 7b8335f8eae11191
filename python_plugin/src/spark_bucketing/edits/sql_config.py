"""Edit keys in the config() call in a model's SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, nodes

from spark_bucketing.edits.config_changes import CannotEditError, in_jinja, line_end, same

_OPEN, _CLOSE = ("(", "[", "{"), (")", "]", "}")
_BOM = "\ufeff"
_LONGEST_LINE = 80
_ASSIGNMENT = re.compile(r"[ \t]*[=:][ \t]*$")


@dataclass(frozen=True)
class Token:
    """A token from Jinja's lexer, with its position in the text."""

    kind: str  # the token type of the lexer
    text: str
    start: int

    @property
    def end(self) -> int:
        """Return the position directly after the token."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Argument:
    """A key and its value, given by their positions in the file."""

    key: str
    start: int  # position of the key
    value_start: int
    end: int  # position after the value


@dataclass(frozen=True)
class ConfigCall:
    """The only config() call in a file."""

    text: str  # text of the whole file
    start: int  # position after the opening bracket
    end: int  # position of the closing bracket
    arguments: Sequence[Argument]
    tokens: Sequence[Token]  # tokens of the arguments
    is_mapping: bool  # config({...}) instead of config(key=value)
    values: Mapping[str, nodes.Expr]  # the arguments as Jinja parsed them


@cache
def environment() -> Environment:
    """Return a Jinja environment that can parse all files that dbt can render."""
    return Environment(extensions=["jinja2.ext.do"], keep_trailing_newline=True)  # noqa: S701


def tokens(text: str) -> Iterator[Token]:
    """Return the tokens of a file with their exact positions in it.

    Jinja's lexer normalizes line endings and drops spaces next to a dash. Therefore, this function first replaces each
    line ending with characters of the same length. Afterwards, the function searches for each token after the spaces
    that the lexer dropped.
    """
    text = text.replace("\r\n", " \n").replace("\r", "\n")
    position = 0
    for _, kind, part in environment().lex(text):
        while not text.startswith(part, position):
            if not text[position].isspace():
                raise CannotEditError("The positions of the tokens in the model's SQL cannot be determined.")
            position += 1
        yield Token(kind, part, position)
        position += len(part)


def config_calls(template: nodes.Node) -> int:
    """Count the config() calls of a file or macro."""
    return sum(_sets_config(call) for call in template.find_all(nodes.Call))


def _sets_config(call: nodes.Call) -> bool:
    # config.get() only reads.
    target = call.node
    if isinstance(target, nodes.Getattr):
        return target.attr == "set" and isinstance(target.node, nodes.Name) and target.node.name == "config"
    return isinstance(target, nodes.Name) and target.name == "config"


def find_config(text: str) -> ConfigCall | None:
    """Return the config() call of a model's file, or None if there is no call.

    Raises:
        CannotEditError: Jinja cannot parse the file, or the call cannot be edited.
    """
    try:
        template = environment().parse(text)
    except TemplateSyntaxError as error:
        said = f"{error.message} (line {error.lineno})"
        raise CannotEditError(f"Jinja cannot parse the model's SQL: {said}.") from error
    count = config_calls(template)
    if count == 0:
        return None
    if count > 1:
        raise CannotEditError(f"The model's SQL calls config() {count} times.")
    call = next(filter(_sets_config, _plain_calls(template)), None)
    if call is None or not isinstance(call.node, nodes.Name):
        raise CannotEditError(
            "The model's SQL calls config() inside other Jinja, such as a condition, a loop or a macro."
        )
    if call.dyn_kwargs or call.dyn_args:
        raise CannotEditError("The model's config() call takes arguments from a variable (**).")
    is_mapping = not call.kwargs and len(call.args) == 1 and isinstance(call.args[0], nodes.Dict)
    if call.args and not is_mapping:
        raise CannotEditError("The model's config() call has positional arguments.")
    found = [token for token in tokens(text) if token.kind != "whitespace"]
    place = next((place for place in range(len(found)) if is_config_call(found, place)), None)
    if place is None:
        raise CannotEditError("The model's config() call cannot be located in the file.")
    inner = within(found[place + 1 :])
    if is_mapping:
        inner = within(inner[1:])
        values = _mapping_values(call.args[0])
    else:
        values = [(keyword.key, keyword.value) for keyword in call.kwargs]
    arguments = tuple(_arguments(inner[1:-1], values))
    return ConfigCall(text, inner[0].end, inner[-1].start, arguments, inner[1:-1], is_mapping, dict(values))


def _plain_calls(template: nodes.Template) -> Iterator[nodes.Call]:
    """Return the calls that are the only content of {{ }} or {% do %}, outside all other blocks."""
    for statement in template.body:
        if isinstance(statement, nodes.Output):
            yield from (one for one in statement.nodes if isinstance(one, nodes.Call))
        elif isinstance(statement, nodes.ExprStmt) and isinstance(statement.node, nodes.Call):
            yield statement.node


def is_config_call(found: Sequence[Token], place: int) -> bool:
    """Return whether the token at this place is the name in a call of `config`.

    A method call such as `model.config(` does not count.
    """
    if (found[place].kind, found[place].text) != ("name", "config") or place + 1 == len(found):
        return False
    is_called = (found[place + 1].kind, found[place + 1].text) == ("operator", "(")
    return is_called and not (place and found[place - 1].text == ".")


def within(found: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens from an opening bracket to its closing bracket, or no tokens if there is no closing bracket."""
    depth = 0
    for number, token in enumerate(found):
        depth += _step(token)
        if depth == 0:
            return found[: number + 1]
    return ()


def _step(token: Token) -> int:
    if token.kind != "operator":
        return 0
    return (token.text in _OPEN) - (token.text in _CLOSE)


def _mapping_values(mapping: Any) -> list[tuple[str, nodes.Expr]]:
    pairs = [(pair.key, pair.value) for pair in mapping.items]
    if not all(isinstance(key, nodes.Const) and isinstance(key.value, str) for key, _ in pairs):
        raise CannotEditError("The model's config() call has a mapping whose keys are not string literals.")
    return [(key.value, value) for key, value in pairs]


def _arguments(inner: Sequence[Token], values: Sequence[tuple[str, nodes.Expr]]) -> Iterator[Argument]:
    """Locate the arguments.

    The keys and values from the syntax tree are in the same order.
    """
    keys = [key for key, _ in values]
    if len(set(keys)) < len(keys):
        raise CannotEditError("The model's config() call sets a key twice.")
    parts = list(split(inner))
    if len(parts) != len(keys) or any(len(part) < 3 for part in parts):
        raise CannotEditError("The arguments of the model's config() call cannot be separated.")
    for key, part in zip(keys, parts, strict=True):
        yield Argument(key, part[0].start, part[2].start, part[-1].end)


def split(inner: Iterable[Token]) -> Iterator[list[Token]]:
    """Split the tokens of arguments at the commas that are not inside brackets."""
    part: list[Token] = []
    depth = 0
    for token in inner:
        depth += _step(token)
        if depth == 0 and token.kind == "operator" and token.text == ",":
            yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


def literal(key: str, value: nodes.Expr) -> object:
    """Return the value of an argument that is a literal.

    Raises:
        CannotEditError: the value is another expression.
    """
    if isinstance(value, nodes.Const):
        return value.value
    if isinstance(value, (nodes.List, nodes.Tuple)):
        return [literal(key, item) for item in value.items]
    if isinstance(value, nodes.Dict):
        return {literal(key, pair.key): literal(key, pair.value) for pair in value.items}
    if isinstance(value, nodes.Neg) and isinstance(value.node, nodes.Const):
        return value.as_const()
    raise CannotEditError(f"The model's config() call sets {key} with a Jinja expression.")


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
