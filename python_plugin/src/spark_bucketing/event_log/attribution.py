"""Find the dbt nodes of the statements in an event log: by dbt's query comment, and by the tables that they write."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_bucketing.event_log.columns import plan_nodes

# The keys of the comment, by the field of a statement.
_KEYS = {"node": "node_id", "invocation": "invocation_id", "target": "target_name"}
# A key of the comment and its value, if the end of the comment is missing.
_PAIR = re.compile(r'"(app|node_id|invocation_id|target_name)"\s*:\s*"([^"]+)"')
# The description in the JSON of an event, possibly without its end.
_DESCRIPTION = re.compile(rb'description":"((?:[^"\\]|\\.)*)')
# (6) Execute InsertIntoHadoopFsRelationCommand, and its lines Input and Arguments
_WRITE = re.compile(
    r"^\(\d+\) (?:Execute )?(\w*(?:Insert|AsSelect)\w*)\n(?:(?:In|Out)put[^\n]*\n)*Arguments: ([^\n]*)", re.M
)
# The plan nodes that write tables, also in the formats of other catalogs.
_WRITERS = re.compile(r"Insert|AsSelect|AppendData|Overwrite|ReplaceData|WriteDelta|MergeInto")
# The first table of these arguments: `spark_catalog`.`db`.`table`, or [Database: db, TableName: table]
_TARGET = re.compile(r"(?:`[^`]+`\.)?`([^`]+)`\.`([^`]+)`|\[Database: ([^,\]]+), TableName: ([^\]]+)\]")
_INTERMEDIATE = re.compile(r"__dbt_(backup|tmp|input|trash)$")
_BUCKETED_WRITE = " buckets, bucket columns: ["
# Nodes that build no table.
NO_MODELS = ("test.", "unit_test.", "operation.")


@dataclass(frozen=True)
class Write:
    """Describe the write of a statement."""

    writes: bool = False  # whether it writes a table, even if the table is unknown
    table: str = ""
    creates: bool = False  # whether it creates the table from a query
    has_buckets: bool = False

    def joined(self, other: Write) -> Write:
        """Return the write of a statement that consists of two parts; the first table that they write counts."""
        first = self if self.table else other
        return Write(self.writes or other.writes, first.table, first.creates, self.has_buckets or other.has_buckets)


def write_of(start: Mapping[str, Any]) -> Write:
    """Return what a statement writes, from the event of its start."""
    matched = _WRITE.search(str(start.get("physicalPlanDescription") or ""))
    if matched is None:
        return Write(any(_WRITERS.search(one["nodeName"]) for one in plan_nodes(start["sparkPlanInfo"])))
    command, arguments = matched.groups()
    return Write(True, _written(arguments), "AsSelect" in command, _BUCKETED_WRITE in arguments)


def _written(arguments: str) -> str:
    matched = _TARGET.search(arguments)
    name = ".".join(part for part in matched.groups() if part) if matched else ""
    return _INTERMEDIATE.sub("", name.lower())


def writers_of(writes: Mapping[str, Mapping[str, bool]]) -> dict[str, str]:
    """Return for each table the node to which it belongs.

    Hooks of a model also write other tables, with the model's query comment. The model's own table has the model's
    name. A model with an alias owns the only table that its runs create from a query or write into buckets.

    Args:
        writes: for each node, the tables that it writes, and whether it creates them or writes them into buckets.
    """
    found: dict[str, str] = {}
    # The names of models come before `table.`.
    for node, tables in sorted(writes.items()):
        if node.startswith(NO_MODELS):
            continue
        # model.package.name, or model.package.name.v2
        own = node.split(".", 2)[-1].lower().replace(".", "_")
        named = [table for table in tables if node == f"table.{table}" or table.rpartition(".")[2] == own]
        built = [table for table, is_built in tables.items() if is_built]
        for table in named or (built if len(built) == 1 else ()):
            found.setdefault(table, node)
    return found


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
