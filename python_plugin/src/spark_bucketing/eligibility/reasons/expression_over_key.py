"""Keys that are no plain columns."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import Change, rewrite_query
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason
from spark_bucketing.eligibility.rewrites import with_plain_equality, without_casts
from spark_bucketing.eligibility.words import purpose, series

_PLAINLY = "Where the keys are never NULL, join with = instead of <=>, INTERSECT or EXCEPT."


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

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies where a key is computed from a bucket column, in the join or on the way to it."""
        if not movement.needed or movement.spec is None or movement.scan is None:
            return None
        columns = {name.lower() for name in movement.spec.bucket_columns}
        wrapped = [
            source
            for source in movement.columns
            if source.wrapped and source.scan.number == movement.scan.number and source.column.name.lower() in columns
        ]
        plain = {
            s.column.name.lower()
            for s in movement.sources
            if s and not s.wrapped and s.scan.number == movement.scan.number
        }
        if not wrapped or columns <= plain:
            return None
        names = series(list(dict.fromkeys(source.column.name for source in wrapped)))
        return Explanation(
            f"{movement.table} is bucketed by {series(movement.spec.bucket_columns)} and {purpose(movement)}: an "
            f"expression over {names} is not where the rows are.",
            (movement.table,),
            self._changes(movement),
        )

    def _changes(self, movement: Movement) -> tuple[Change, ...]:
        other = movement.other
        if other is None:
            return ()
        casts = all(s and s.cast and o and o.cast for s, o in zip(movement.sources, other.sources, strict=False))
        null_safe = any(key.startswith("isnull(") for key in movement.keys)
        if null_safe:
            return (
                rewrite_query(
                    "Where the keys are never NULL, join with = instead of <=>, INTERSECT or EXCEPT.",
                    with_plain_equality,
                ),
            )
        text = "Join by the columns themselves: both sides are cast alike."
        return (rewrite_query(text, without_casts),) if casts else ()
