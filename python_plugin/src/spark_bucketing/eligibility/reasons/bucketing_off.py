"""Spark's own switch."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import set_to
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason

SETTING = "spark.sql.sources.bucketing.enabled"


class BucketingOff(Reason):
    """Spark is told to ignore buckets when it reads, by `spark.sql.sources.bucketing.enabled=false`.

    **Anti-pattern**

    ```yaml
    server_side_parameters:
      spark.sql.sources.bucketing.enabled: "false"
    ```

    **Best practice**

    Leave the setting at its default, `true`.
    """

    slug = "bucketing-off"
    summary = "a setting tells Spark to ignore buckets"

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies where the setting is false and the table has buckets."""
        if not (movement.spec and movement.needed) or movement.settings.on(SETTING):
            return None
        message = f"{movement.table} is bucketed, and {SETTING}=false tells Spark to ignore that."
        return Explanation(message, (movement.table,), (set_to({SETTING: "true"}),))
