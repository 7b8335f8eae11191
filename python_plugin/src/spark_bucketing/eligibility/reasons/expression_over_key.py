"""Keys that are no plain columns."""

from __future__ import annotations

from dataclasses import replace

from spark_bucketing.eligibility.changes import rewrite_query
from spark_bucketing.eligibility.steps import Change, Explanation, Reason, Step
from spark_bucketing.eligibility.words import purpose, series


class ExpressionOverKey(Reason):
    """The key is an expression over a bucket column, and the rows are spread by the column.

    **Anti-pattern**

    ```sql
    select * from clicks join users on lower(clicks.user_name) = users.user_name
    ```

    INTERSECT, EXCEPT and `<=>` compare by expressions too, so that NULL equals NULL.

    **Best practice**

    Compute the key in the model that the table is built from, and bucket by the outcome.

    ```sql
    select lower(user_name) as user_name, ... from raw_clicks
    ```
    """

    slug = "expression-over-key"
    summary = "an expression or cast over the key hides the buckets"

    def explain(self, step: Step) -> Explanation | None:
        """Applies where a key is computed from a bucket column, in the join or on the way to it."""
        if not step.needed or step.spec is None or step.scan is None:
            return None
        columns = {name.lower() for name in step.spec.bucket_columns}
        wrapped = [
            source
            for source in step.columns
            if source.wrapped and source.scan.number == step.scan.number and source.column.name.lower() in columns
        ]
        plain = {
            s.column.name.lower() for s in step.sources if s and not s.wrapped and s.scan.number == step.scan.number
        }
        if not wrapped or columns <= plain:
            return None
        names = series(list(dict.fromkeys(source.column.name for source in wrapped)))
        return Explanation(
            f"{step.table} is bucketed by {series(step.spec.bucket_columns)} and {purpose(step)}: an expression over "
            f"{names} is not where the rows are.",
            (step.table,),
            self._changes(step),
        )

    def _changes(self, step: Step) -> tuple[Change, ...]:
        other = step.other
        if other is None:
            return ()
        world = replace(step.world, unwrapped=step.world.unwrapped | {step.op.node.number})
        casts = all(s and s.cast and o and o.cast for s, o in zip(step.sources, other.sources, strict=False))
        null_safe = any(key.startswith("isnull(") for key in step.keys)
        if null_safe:
            return (
                rewrite_query("Where the keys are never NULL, join with = instead of <=>, INTERSECT or EXCEPT.", world),
            )
        return (rewrite_query("Join by the columns themselves: both sides are cast alike.", world),) if casts else ()
