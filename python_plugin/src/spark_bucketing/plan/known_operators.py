"""Spark's and the extension's own operators: what a plan may hold without anything being unknown.

A name that is not here, such as another engine's CometExchange or PhotonShuffleMapStage, may move or sort rows under
any name. Operators that gather rows by a key without being a join, aggregate or window of SQL (FlatMapGroupsInPandas,
MergingSessions, SortMergeAsOfJoin) are left out on purpose, since it is not known here where their rows go.
"""

from __future__ import annotations

from typing import Literal

from spark_bucketing.plan.tree import AGGREGATES, JOINS, PlanNode

OperatorKind = Literal["join", "aggregate", "distinct", "window", "other"]
# Of a limit: they bring rows into one task without an Exchange in the plan.
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
# Between rows and columns every engine has its own, which change nothing else.
_TRANSITIONS = ("ColumnarToRow", "RowToColumnar")
_KINDS: tuple[tuple[str, OperatorKind], ...] = (("Join", "join"), ("Window", "window"), ("Agg", "aggregate"))


def is_known(node: PlanNode) -> bool:
    """Whether it is known what an operator does to its rows."""
    return node.operator in KNOWN or node.operator.endswith(_TRANSITIONS)


def foreign_kind(node: PlanNode) -> OperatorKind | None:
    """What an operator that is not known is by its name: a join, an aggregate, a window; None for anything else."""
    if is_known(node):
        return None
    return next((kind for word, kind in _KINDS if word in node.operator), None)
