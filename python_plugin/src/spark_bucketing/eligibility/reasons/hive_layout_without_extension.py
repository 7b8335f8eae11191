"""Tables of the Hive layout on stock Spark."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import match_other, switch_extension_on
from spark_bucketing.eligibility.steps import Explanation, Reason, Step
from spark_bucketing.eligibility.words import buckets


class HiveLayoutWithoutExtension(Reason):
    """Stock Spark reads a table of the Hive layout as a plain one.

    **Anti-pattern**

    A table with `bucket_hash='hive'`, the default, in a session that does not load the extension, or that has
    `spark.bucketing.enabled=false`.

    **Best practice**

    Load the session extension; `spark-bucketing extension conf` prints the settings. Or take `bucket_hash='spark'`,
    which stock Spark reads as bucketed, when neither Hive nor Trino has to.
    """

    slug = "hive-layout-without-extension"
    summary = "stock Spark does not read the Hive layout as bucketed; the session extension does"

    def explain(self, step: Step) -> Explanation | None:
        """Applies to bucketed tables of the Hive layout, without the extension."""
        if not (step.spec and step.needed) or step.spec.bucket_hash != "hive" or step.world.extension:
            return None
        return Explanation(
            f"{step.table} has {buckets(step.spec)} in the Hive layout, and this session does not use the extension "
            "that reads them: to stock Spark it is a plain table.",
            (step.table,),
            (switch_extension_on(step.world), *match_other(step)),
        )
