"""Find the table that a statement in an event log writes, and the model to which the table belongs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_bucketing.event_log.columns import plan_nodes

# (6) Execute InsertIntoHadoopFsRelationCommand, and its lines Input and Arguments
_WRITE = re.compile(
    r"^\(\d+\) (?:Execute )?(\w*(?:Insert|AsSelect)\w*)\n(?:(?:In|Out)put[^\n]*\n)*Arguments: ([^\n]*)", re.M
)
# The plan nodes that write tables, also in the formats of other catalogs.
_WRITERS = re.compile(r"Insert|AsSelect|AppendData|Overwrite|ReplaceData|WriteDelta|MergeInto")
# The first table of these arguments: `spark_catalog`.`db`.`table`, or [Database: db, TableName: table]
_TARGET = re.compile(r"(?:`[^`]+`\.)?`([^`]+)`\.`([^`]+)`|\[Database: ([^,\]]+), TableName: ([^\]]+)\]")
_INTERMEDIATE = re.compile(r"__dbt_(backup|staged|tmp|input|plan|trash)$")
_BUCKETED_WRITE = " buckets, bucket columns: ["
# Nodes that do not build a table of their own.
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
