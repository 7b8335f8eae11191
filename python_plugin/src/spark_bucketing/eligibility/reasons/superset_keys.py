"""More join keys than bucket columns."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import match_either, set_to
from spark_bucketing.eligibility.steps import Explanation, Reason, Step
from spark_bucketing.eligibility.words import buckets, purpose

SETTING = "spark.sql.requireAllClusterKeysForCoPartition"


class SupersetKeys(Reason):
    """The join has more keys than the table has bucket columns, and a setting of Spark's wants all of them hashed.

    **Anti-pattern**

    ```sql
    -- both: clustered_by=['user_id']
    select * from clicks join sessions using (user_id, session_id)
    ```

    with `spark.sql.requireAllClusterKeysForCoPartition=true`, the default.

    **Best practice**

    Set `spark.sql.requireAllClusterKeysForCoPartition=false`: it guards against skew in keys that nobody chose, and
    bucket columns were chosen. Tables of the Hive layout, read by the extension, need no setting.
    """

    slug = "superset-keys"
    summary = "the join has more keys than the buckets, and a setting forbids that"

    def explain(self, step: Step) -> Explanation | None:
        """Applies where the layout fits the keys but for the setting."""
        if not step.needed or step.other is None or step.spec is None or not step.within or step.usable:
            return None
        return Explanation(
            f"{step.table} has {buckets(step.spec)} and is {purpose(step)}, which are more keys; {SETTING}=true wants "
            "the buckets to be of all of them.",
            (step.table,),
            (set_to(step.world, {SETTING: "false"}), *match_either(step)),
        )
