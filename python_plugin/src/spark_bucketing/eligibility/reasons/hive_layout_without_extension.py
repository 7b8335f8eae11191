"""Tables of the Hive layout on stock Spark."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import match_other, switch_extension_on
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason
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

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies to bucketed tables of the Hive layout, without the extension."""
        if (
            not (movement.spec and movement.needed)
            or movement.spec.bucket_hash != "hive"
            or movement.settings.extension
        ):
            return None
        return Explanation(
            f"{movement.table} has {buckets(movement.spec)} in the Hive layout, and this session does not use the "
            "extension that reads them: to stock Spark it is a plain table.",
            (movement.table,),
            (switch_extension_on(movement.settings), *match_other(movement)),
        )
