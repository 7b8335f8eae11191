"""Find dbt's query comment in the statements and job descriptions of an event log."""

from __future__ import annotations

import re
from typing import Any

_DBT = '"app": "dbt"'
# The keys of the comment, by the field of a statement.
_FIELDS = {
    field: re.compile(rf'"{key}": "([^"]+)"')
    for field, key in (("node", "node_id"), ("invocation", "invocation_id"), ("target", "target_name"))
}
# The description in the JSON of an event, possibly without its end.
_DESCRIPTION = re.compile(rb'description":"((?:[^"\\]|\\.)*)')


def query_comment(text: str) -> str:
    """Return dbt's query comment from a statement or from a job's description, or an empty string.

    The comment is at the start of a statement, or at its end if the project sets `append: true`. The statement itself
    may contain similar text. A description may consist of the comment only.
    """
    first = text.lstrip().removeprefix("/*").partition("*/")[0]
    end = text.rstrip().removesuffix(";").rstrip()
    last = end.removesuffix("*/").rpartition("/*")[2] if end.endswith("*/") else ""
    return next((one for one in (first, last) if one.lstrip().startswith("{") and _DBT in one), "")


def comment_of_line(line: bytes) -> str:
    """Return dbt's query comment from a line of an event log that is not valid JSON, or an empty string."""
    matched = _DESCRIPTION.search(line)
    return query_comment(matched[1].decode(errors="replace").replace('\\"', '"')) if matched else ""


def comment_fields(comment: str) -> dict[str, Any]:
    """Return the fields of a statement that dbt's query comment contains: node, invocation and target."""
    found = {name: pattern.search(comment) for name, pattern in _FIELDS.items()}
    return {name: matched[1] if matched else "" for name, matched in found.items()}
