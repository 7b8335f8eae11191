"""Parse lists and attributes as Spark prints them: `[k#12, cast(v#13L as int) AS w#14]`.

Spark does not quote string literals, so a literal with a comma or a bracket can look like several elements. Therefore,
this module rejects a list if it finds another number of elements than Spark prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_ATTRIBUTE = re.compile(r"^(?P<name>.+)#(?P<id>\d+)L?$", re.DOTALL)
_ATTRIBUTES = re.compile(r"(?P<name>.+?)#(?P<id>\d+)L?(?:, |$)", re.DOTALL)
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True)
class Attribute:
    """A column in an operator's output, with its name and the id that Spark gives it."""

    name: str
    id: int

    @property
    def key(self) -> str:
        """Return the attribute without its name, in the form that canonical() uses."""
        return f"#{self.id}"


@dataclass(frozen=True)
class NamedExpression:
    """An element of a select list: its name, and its value, which is the key of an attribute, or an expression."""

    attribute: Attribute
    expression: str

    def makes(self, key: str) -> bool:
        """Return whether this element computes the attribute, rather than passing on an existing one."""
        return self.attribute.key == key != self.expression


def attribute_of(text: str) -> Attribute | None:
    """Parse a single attribute, or return None if the text is anything else."""
    found = _ATTRIBUTE.match(text.strip())
    # A name may contain any character. However, a text with brackets or comparison operators is probably an expression
    # that ends with an attribute.
    if found is None or re.search(r"[()\[\]=<>]| AS ", found["name"]):
        return None
    return Attribute(found["name"], int(found["id"]))


def canonical(expression: str) -> str:
    """Replace each attribute with its id: `cast(k#12L as int)` becomes `cast(#12 as int)`."""
    whole = attribute_of(expression)
    return whole.key if whole else re.sub(r"[\w.`]*#(\d+)L?", r"#\1", expression.strip())


def ids_in(expression: str) -> tuple[int, ...]:
    """Return the distinct ids of all attributes in an expression."""
    return tuple(dict.fromkeys(int(found) for found in re.findall(r"#(\d+)L?", expression)))


def attributes(text: str, number: int | None) -> tuple[Attribute, ...] | None:
    """Parse a list of attributes, whose names may contain any characters, or return None if this fails."""
    found = tuple(map(_attribute, _ATTRIBUTES.finditer(text.strip()[1:-1])))
    return found if number is None or len(found) == number else None


def elements(text: str, number: int | None) -> tuple[str, ...] | None:
    """Parse a list of expressions, or return None if it has another number of elements than Spark prints."""
    inner = text.strip()
    if not (inner.startswith("[") and inner.endswith("]") and is_balanced(inner)):
        return None
    parts = tuple(_split(inner[1:-1])) if inner != "[]" else ()
    return parts if number is None or len(parts) == number else None


def arguments(text: str) -> tuple[str, ...]:
    """Split an `Arguments:` line at the commas between its arguments."""
    return tuple(_split(text))


def named_expression(element: str) -> NamedExpression | None:
    """Parse an element of a select list, or return None if this fails."""
    before, alias, after = element.rpartition(" AS ")
    match = _ATTRIBUTE.match(after.strip())
    if match is None:
        return None
    found = _attribute(match)
    return NamedExpression(found, canonical(before) if alias else found.key)


def named_expressions(parts: Sequence[str] | None) -> tuple[NamedExpression, ...] | None:
    """Parse the elements of a select list, or return None if parsing any of them fails."""
    found = tuple(map(named_expression, parts)) if parts is not None else (None,)
    return None if None in found else tuple(item for item in found if item)


def _attribute(match: re.Match[str]) -> Attribute:
    return Attribute(match["name"].strip("`"), int(match["id"]))


def is_balanced(text: str) -> bool:
    """Return whether the brackets in a text are balanced.

    If literals contain brackets, a list cannot be split reliably.
    """
    depth = 0
    for character in text:
        depth += (character in _OPENING) - (character in _CLOSING)
        if depth < 0:
            return False
    return depth == 0


def _split(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for place, character in enumerate(text):
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif depth == 0 and text.startswith(", ", place):
            yield text[start:place].strip()
            start = place + 2
    yield text[start:].strip()
