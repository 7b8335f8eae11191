"""Spark's own switch."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import set_to
from spark_bucketing.eligibility.steps import Explanation, Reason, Step

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

    def explain(self, step: Step) -> Explanation | None:
        """Applies where the setting is false and the table has buckets."""
        if not (step.spec and step.needed) or step.world.on(SETTING):
            return None
        message = f"{step.table} is bucketed, and {SETTING}=false tells Spark to ignore that."
        return Explanation(message, (step.table,), (set_to(step.world, {SETTING: "true"}),))
