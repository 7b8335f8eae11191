"""Lists and attributes as Spark prints them: `[k#12, cast(v#13L as int) AS w#14]`.

Nothing is quoted in Spark's text, so that a literal with a comma or a bracket in it reads like several elements. Spark
prints how many elements a list has; a list that comes out with another number is not understood.
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
    """A column of an operator's output: its name, and the id by which Spark knows it."""

    name: str
    id: int

    @property
    def key(self) -> str:
        """The attribute without its name, as canonical() writes it."""
        return f"#{self.id}"


@dataclass(frozen=True)
class NamedExpression:
    """An element of a select list: what it is called, and what it stands for (an attribute's key, or an expression)."""

    attribute: Attribute
    expression: str

    def makes(self, key: str) -> bool:
        """Whether it is this attribute, computed rather than passed on."""
        return self.attribute.key == key != self.expression


def attribute_of(text: str) -> Attribute | None:
    """The attribute that a text is, as a whole, or None."""
    found = _ATTRIBUTE.match(text.strip())
    # A name can be anything, but an operator's sign or a bracket is rather an expression that ends with an attribute.
    if found is None or re.search(r"[()\[\]=<>]| AS ", found["name"]):
        return None
    return Attribute(found["name"], int(found["id"]))


def canonical(expression: str) -> str:
    """An expression with attributes named by their ids only: `cast(k#12L as int)` becomes `cast(#12 as int)`."""
    whole = attribute_of(expression)
    return whole.key if whole else re.sub(r"[\w.`]*#(\d+)L?", r"#\1", expression.strip())


def ids_in(expression: str) -> tuple[int, ...]:
    """Ids of the attributes in an expression, each once."""
    return tuple(dict.fromkeys(int(found) for found in re.findall(r"#(\d+)L?", expression)))


def attributes(text: str, number: int | None) -> tuple[Attribute, ...] | None:
    """Attributes of a list without expressions, which may have odd names; None when it cannot be read."""
    found = tuple(map(_attribute, _ATTRIBUTES.finditer(text.strip()[1:-1])))
    return found if number is None or len(found) == number else None


def elements(text: str, number: int | None) -> tuple[str, ...] | None:
    """Elements of a list of expressions; None when there are not as many as Spark prints."""
    inner = text.strip()
    if not (inner.startswith("[") and inner.endswith("]") and is_balanced(inner)):
        return None
    parts = tuple(_split(inner[1:-1])) if inner != "[]" else ()
    return parts if number is None or len(parts) == number else None


def arguments(text: str) -> tuple[str, ...]:
    """What stands between the commas of an `Arguments:` line."""
    return tuple(_split(text))


def named_expression(element: str) -> NamedExpression | None:
    """An element of a select list; None for one that cannot be read."""
    before, alias, after = element.rpartition(" AS ")
    match = _ATTRIBUTE.match(after.strip())
    if match is None:
        return None
    found = _attribute(match)
    return NamedExpression(found, canonical(before) if alias else found.key)


def named_expressions(parts: Sequence[str] | None) -> tuple[NamedExpression, ...] | None:
    """Elements of a select list; None where one of them, or the list, cannot be read."""
    found = tuple(map(named_expression, parts)) if parts is not None else (None,)
    return None if None in found else tuple(item for item in found if item)


def _attribute(match: re.Match[str]) -> Attribute:
    return Attribute(match["name"].strip("`"), int(match["id"]))


def is_balanced(text: str) -> bool:
    """Whether brackets close; in a literal they need not, and then it is not known which commas part elements."""
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
