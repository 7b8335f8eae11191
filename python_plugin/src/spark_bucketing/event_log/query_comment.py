"""Find dbt's query comment in the statements and job descriptions of an event log."""

from __future__ import annotations

import json
import re
from typing import Any

# The keys of the comment, by the field of a statement.
_KEYS = {"node": "node_id", "invocation": "invocation_id", "target": "target_name"}
# A key of the comment and its value, if the end of the comment is missing.
_PAIR = re.compile(r'"(app|node_id|invocation_id|target_name)"\s*:\s*"([^"]+)"')
# The description in the JSON of an event, possibly without its end.
_DESCRIPTION = re.compile(rb'description":"((?:[^"\\]|\\.)*)')


def query_comment(text: str) -> dict[str, Any]:
    """Return the fields of dbt's query comment in a statement or in a job's description: node, invocation and target.

    The result is empty if the text contains no such comment.

    The comment is at the start of a statement, or at its end if the project sets `append: true`. The statement itself
    may contain similar text. A description may consist of the comment only.
    """
    first = text.lstrip().removeprefix("/*").partition("*/")[0]
    end = text.rstrip().removesuffix(";").rstrip()
    last = end.removesuffix("*/").rpartition("/*")[2] if end.endswith("*/") else ""
    comments = map(_object, (first, last))
    comment = next((one for one in comments if one.get("app") == "dbt"), None)
    if comment is None:
        return {}
    return {field: str(comment.get(key) or "") for field, key in _KEYS.items()}


def comment_of_line(line: bytes) -> dict[str, Any]:
    """Return the fields of dbt's query comment in a line of an event log that is not valid JSON."""
    matched = _DESCRIPTION.search(line)
    return query_comment(matched[1].decode(errors="replace").replace('\\"', '"')) if matched else {}


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object at the start of a text; if its end is missing, the keys before it."""
    text = text.lstrip()
    if not text.startswith("{"):
        return {}
    try:
        found: dict[str, Any] = json.JSONDecoder().raw_decode(text)[0]
    except ValueError:
        return dict(_PAIR.findall(text))
    return found
