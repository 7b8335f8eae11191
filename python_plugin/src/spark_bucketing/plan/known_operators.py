"""List the operators of Spark and of the extension whose effects this package knows.

Any other operator may shuffle or sort rows, whatever its name says. Examples are CometExchange and
PhotonShuffleMapStage, which belong to other engines. Some operators group rows, but are not a join, aggregate or window
in SQL: FlatMapGroupsInPandas, MergingSessions and SortMergeAsOfJoin. The lists omit them, because this package does not
model their partitioning.
"""

from __future__ import annotations

from typing import Literal

from spark_bucketing.plan.tree import AGGREGATES, JOINS, PlanNode

OperatorKind = Literal["join", "aggregate", "distinct", "window", "other"]
# Limits that collect rows in one task without an Exchange in the plan.
GATHERING = ("TakeOrderedAndProject", "CollectLimit", "CollectTail")
_MOVING = ("Exchange", "ReusedExchange", "BroadcastExchange", "Sort", "Window", "WindowGroupLimit", *GATHERING)
_LEAVES = (
    "Scan", "BatchScan", "InMemoryTableScan", "InMemoryRelation", "LocalTableScan", "Range", "RDDScan",
    "OneRowRelation", "ExternalRDDScan", "FileSourceScan", "HiveTableScan", "RowDataSourceScan",
    "EmptyRelation", "CommandResult",
)  # fmt: skip
_ROW_BY_ROW = (
    "Project", "Filter", "Expand", "Generate", "Sample", "Union", "Coalesce", "LocalLimit", "GlobalLimit",
    "ColumnarToRow", "RowToColumnar", "ArrowEvalPython", "BatchEvalPython", "ArrowEvalPythonUDTF",
    "BatchEvalPythonUDTF", "MapInPandas", "MapInArrow", "MapPartitions", "MapElements", "AppendColumns",
    "SerializeFromObject", "DeserializeToObject", "CollectMetrics", "EventTimeWatermark", "MergeRows",
    "ScriptTransformation", "SparkScriptTransformation", "HiveScriptTransformation", "GroupPartitions",
)  # fmt: skip
_WRAPPERS = (
    "AdaptiveSparkPlan", "AQEShuffleRead", "ShuffleQueryStage", "BroadcastQueryStage", "TableCacheQueryStage",
    "ResultQueryStage", "InputAdapter", "WholeStageCodegen", "Subquery", "ReusedSubquery", "SubqueryBroadcast",
    "SubqueryAdaptiveBroadcast",
)  # fmt: skip
_EXTENSION = ("BucketUnion", "BucketedRows")
_WRITERS = (
    "Execute", "WriteFiles", "AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic", "ReplaceData",
    "WriteDelta", "CreateTableAsSelect", "AtomicCreateTableAsSelect", "ReplaceTableAsSelect",
    "AtomicReplaceTableAsSelect",
)  # fmt: skip
KNOWN = frozenset(
    (*_MOVING, *_LEAVES, *_ROW_BY_ROW, *_WRAPPERS, *_EXTENSION, *_WRITERS, *JOINS, *AGGREGATES),
)
# Each engine has its own operators that convert between rows and columns. They change nothing else.
_TRANSITIONS = ("ColumnarToRow", "RowToColumnar")
_KINDS: tuple[tuple[str, OperatorKind], ...] = (("Join", "join"), ("Window", "window"), ("Agg", "aggregate"))


def is_known(node: PlanNode) -> bool:
    """Return whether this package knows how an operator changes its rows."""
    return node.operator in KNOWN or node.operator.endswith(_TRANSITIONS)


def foreign_kind(node: PlanNode) -> OperatorKind | None:
    """Guess from its name whether an unknown operator is a join, an aggregate or a window.

    Return None if the name suggests none of them.
    """
    if is_known(node):
        return None
    return next((kind for word, kind in _KINDS if word in node.operator), None)
