"""More join keys than bucket columns."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import match_either, set_to
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason
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

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies where the layout fits the keys but for the setting."""
        if (
            not movement.needed
            or movement.other is None
            or movement.spec is None
            or not movement.arrivals
            or movement.usable
        ):
            return None
        return Explanation(
            f"{movement.table} has {buckets(movement.spec)} and is {purpose(movement)}, which are more keys; "
            f"{SETTING}=true wants the buckets to be of all of them.",
            (movement.table,),
            (set_to({SETTING: "false"}), *match_either(movement)),
        )
