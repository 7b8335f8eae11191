"""A model's SQL as Jinja reads it: where its config() is called, and with what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, nodes

from spark_bucketing.edits.changes import CannotEditError
from spark_bucketing.edits.entries import Entries, Entry

_OPEN, _CLOSE = ("(", "[", "{"), (")", "]", "}")


@dataclass(frozen=True)
class Token:
    """A token of Jinja's lexer, by its position."""

    kind: str  # the lexer's word for it
    text: str
    start: int

    @property
    def end(self) -> int:
        """The position after it."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class ConfigCall:
    """The one call of config() in a file."""

    entries: Entries
    tokens: Sequence[Token]  # those of its arguments
    is_mapping: bool  # config({...}) rather than config(key=value)
    values: Mapping[str, nodes.Expr]  # the arguments, as Jinja has parsed them


def environment() -> Environment:
    """What dbt reads a model's file with, as far as it matters for reading."""
    return Environment(extensions=["jinja2.ext.do"], keep_trailing_newline=True)  # noqa: S701


def parsed(text: str) -> nodes.Template:
    """The tree of a model's file.

    Raises:
        CannotEditError: it is none that Jinja can read.
    """
    try:
        return environment().parse(text)
    except TemplateSyntaxError as error:
        said = f"{error.message} (line {error.lineno})"
        raise CannotEditError(f"Its SQL is no Jinja that can be read: {said}.") from error


def tokens(text: str) -> Iterator[Token]:
    """Tokens of a file by their exact positions.

    Jinja's lexer turns all line ends into line feeds, and swallows spaces beside a dash; so it reads a text of the
    same length that has only these, and each token is looked for after the spaces.
    """
    text = text.replace("\r\n", " \n").replace("\r", "\n")
    position = 0
    for _, kind, part in environment().lex(text):
        while not text.startswith(part, position):
            if not text[position].isspace():
                raise CannotEditError("Its SQL is no Jinja whose parts can be told apart.")
            position += 1
        yield Token(kind, part, position)
        position += len(part)


def config_calls(template: nodes.Node) -> int:
    """How often a file or macro sets a config."""
    return sum(_sets_config(call) for call in template.find_all(nodes.Call))


def _sets_config(call: nodes.Call) -> bool:
    # config.get() reads.
    target = call.node
    if isinstance(target, nodes.Getattr):
        return target.attr == "set" and isinstance(target.node, nodes.Name) and target.node.name == "config"
    return isinstance(target, nodes.Name) and target.name == "config"


def find_config(text: str) -> ConfigCall | None:
    """The call of config() in a model's file, or None where there is none.

    Raises:
        CannotEditError: there is one that cannot be edited.
    """
    template = parsed(text)
    count = config_calls(template)
    if count == 0:
        return None
    if count > 1:
        raise CannotEditError(f"Its SQL calls config() {count} times.")
    call = next(filter(_sets_config, _plain_calls(template)), None)
    if call is None or not isinstance(call.node, nodes.Name):
        raise CannotEditError("Its SQL calls config() within other Jinja (a condition, a loop, a macro).")
    if call.dyn_kwargs or call.dyn_args:
        raise CannotEditError("Its config() takes arguments from a variable (**).")
    is_mapping = not call.kwargs and len(call.args) == 1 and isinstance(call.args[0], nodes.Dict)
    if call.args and not is_mapping:
        raise CannotEditError("Its config() has arguments without names.")
    inner = _arguments([token for token in tokens(text) if token.kind != "whitespace"])
    if is_mapping:
        inner = _within(inner[1:])
        values = _mapping_values(call.args[0])
    else:
        values = [(keyword.key, keyword.value) for keyword in call.kwargs]
    entries = Entries(text, inner[0].start + 1, inner[-1].start, tuple(_entries(inner[1:-1], values)))
    return ConfigCall(entries, inner[1:-1], is_mapping, dict(values))


def _plain_calls(template: nodes.Template) -> Iterator[nodes.Call]:
    """Calls that stand alone, in {{ }} or {% do %}, within no other block."""
    for statement in template.body:
        if isinstance(statement, nodes.Output):
            yield from (one for one in statement.nodes if isinstance(one, nodes.Call))
        elif isinstance(statement, nodes.ExprStmt) and isinstance(statement.node, nodes.Call):
            yield statement.node


def _arguments(found: Sequence[Token]) -> Sequence[Token]:
    """The tokens of config's arguments, with their parentheses."""
    for number, token in enumerate(found[:-1]):
        is_called = found[number + 1].text == "(" and found[number + 1].kind == "operator"
        is_attribute = number > 0 and found[number - 1].text == "."
        if token.kind == "name" and token.text == "config" and is_called and not is_attribute:
            return _within(found[number + 1 :])
    raise CannotEditError("Its call of config() cannot be found in its text.")


def _within(found: Sequence[Token]) -> Sequence[Token]:
    """The tokens from a bracket to the one that closes it."""
    depth = 0
    for number, token in enumerate(found):
        depth += _step(token)
        if depth == 0:
            return found[: number + 1]
    raise CannotEditError("Its call of config() has no end.")


def _step(token: Token) -> int:
    if token.kind != "operator":
        return 0
    return (token.text in _OPEN) - (token.text in _CLOSE)


def _mapping_values(mapping: Any) -> list[tuple[str, nodes.Expr]]:
    pairs = [(pair.key, pair.value) for pair in mapping.items]
    if not all(isinstance(key, nodes.Const) and isinstance(key.value, str) for key, _ in pairs):
        raise CannotEditError("Its config() has a mapping whose keys are no plain text.")
    return [(key.value, value) for key, value in pairs]


def _entries(inner: Sequence[Token], values: Sequence[tuple[str, nodes.Expr]]) -> Iterator[Entry]:
    """Split arguments at the commas; keys and values of the tree come in the same order."""
    keys = [key for key, _ in values]
    if len(set(keys)) < len(keys):
        raise CannotEditError("Its config() has a key twice.")
    parts = list(_split(inner))
    if len(parts) != len(keys) or any(len(part) < 3 for part in parts):
        raise CannotEditError("Its config() has arguments that cannot be told apart.")
    for key, part in zip(keys, parts, strict=True):
        yield Entry(key, part[0].start, part[2].start, part[-1].end)


def _split(inner: Iterable[Token]) -> Iterator[list[Token]]:
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


def literal(value: nodes.Expr) -> object:
    """What a literal stands for.

    Raises:
        CannotEditError: it is none: it depends on variables, or is made by an operation.
    """
    if isinstance(value, nodes.Const):
        return value.value
    if isinstance(value, (nodes.List, nodes.Tuple)):
        return [literal(item) for item in value.items]
    if isinstance(value, nodes.Dict):
        return {literal(pair.key): literal(pair.value) for pair in value.items}
    if isinstance(value, nodes.Neg) and isinstance(value.node, nodes.Const):
        return value.as_const()
    raise CannotEditError("no literal")
