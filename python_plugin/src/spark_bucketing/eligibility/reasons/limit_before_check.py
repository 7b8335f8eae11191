"""A limit that may end a query before the extension has checked what it reads."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import set_to
from spark_bucketing.eligibility.steps import Explanation, Reason, Step
from spark_bucketing.eligibility.world import objection, waits

SETTING = "spark.bucketing.read.early"


class LimitBeforeCheck(Reason):
    """A LIMIT may end the query before all rows are read, and the extension checks rows while they are read.

    It uses the buckets below a limit only for files that an earlier query of the session has read to their end. The
    same below a write that cannot be taken back, such as an INSERT OVERWRITE that deletes the old rows before it reads
    the first new one.

    **Anti-pattern**

    ```sql
    select * from clicks left join users using (user_id) limit 1000
    ```

    **Best practice**

    Leave out the LIMIT where it is not needed. Where files are written by dbt only, set
    `spark.bucketing.read.early=probed`, which trusts their names and first rows.
    """

    slug = "limit-before-check"
    summary = "a LIMIT may end the query before the rows below it are checked"

    def explain(self, step: Step) -> Explanation | None:
        """Applies where the extension says so."""
        if not (step.scan and step.needed and waits(step.scan)):
            return None
        why = objection(step.scan) or ""
        acts = "a LIMIT above may end the query" if why.startswith("a limit") else why.partition(" before all")[0]
        message = (
            f"{step.table} is read as a plain table: {acts} before all rows are checked, and {SETTING}=checked uses "
            "buckets there only after another query has checked them."
        )
        return Explanation(message, (step.table,), (set_to(step.world, {SETTING: "probed"}),))
