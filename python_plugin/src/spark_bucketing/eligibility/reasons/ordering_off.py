"""Spark's switch for the order of buckets."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import set_to, switch_extension_on
from spark_bucketing.eligibility.steps import Explanation, Reason, Step

SETTING = "spark.sql.legacy.bucketedTableScan.outputOrdering"


class OrderingOff(Reason):
    """The files are sorted as wanted, but stock Spark does not rely on that unless a setting says so.

    **Anti-pattern**

    Sorted buckets, one file each, on stock Spark with its default settings: no shuffle, but two sorts.

    **Best practice**

    Set `spark.sql.legacy.bucketedTableScan.outputOrdering=true`, or load the extension.
    """

    slug = "ordering-off"
    summary = "the files are sorted, but a setting keeps Spark from relying on it"
    about = ("Sort",)

    def explain(self, step: Step) -> Explanation | None:
        """Applies to a Sort on stock Spark, whose setting is off."""
        if not step.readable or step.world.extension or step.world.on(SETTING):
            return None
        return Explanation(
            f"The files of {step.table} are sorted as wanted, but {SETTING}=false keeps Spark from relying on it.",
            (step.table,),
            (set_to(step.world, {SETTING: "true"}), switch_extension_on(step.world)),
        )
