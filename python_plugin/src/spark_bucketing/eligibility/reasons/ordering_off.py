"""Spark's switch for the order of buckets."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import let_extension_read, set_to
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason

SETTING = "spark.sql.legacy.bucketedTableScan.outputOrdering"


class OrderingOff(Reason):
    """The files are sorted as wanted, but stock Spark does not rely on that unless a setting says so.

    **Anti-pattern**

    Sorted buckets, one file each, on stock Spark with its default settings: no shuffle, but two sorts. The same with
    the extension for a table of the Spark layout that it leaves to stock Spark, such as one bucketed by a timestamp.

    **Best practice**

    Set `spark.sql.legacy.bucketedTableScan.outputOrdering=true`, or load the extension.
    """

    slug = "ordering-off"
    summary = "the files are sorted, but a setting keeps Spark from relying on it"
    about = ("Sort",)

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies to a Sort above a scan of stock Spark's, whose setting is off."""
        if not movement.readable or movement.by_extension or movement.settings.on(SETTING):
            return None
        stock = (
            " It is stock Spark that reads this table: the extension leaves it alone."
            if movement.settings.extension
            else ""
        )
        return Explanation(
            f"The files of {movement.table} are sorted as wanted, but {SETTING}=false keeps Spark from relying on "
            f"it.{stock}",
            (movement.table,),
            (set_to({SETTING: "true"}), *let_extension_read(movement)),
        )
