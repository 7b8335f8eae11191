"""Equal values of different types."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import Change, match_other, retype
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason


class KeyTypesDiffer(Reason):
    """The join's keys have different types, so that Spark casts one of them, and the hash of a cast value is another.

    **Anti-pattern**

    ```sql
    -- clicks.user_id is int, users.user_id is bigint
    select * from clicks join users on clicks.user_id = users.user_id
    ```

    **Best practice**

    Give the key one type everywhere: cast it in the staging model.

    ```sql
    select cast(user_id as bigint) as user_id, ... from raw_clicks
    ```
    """

    slug = "key-types-differ"
    summary = "the keys have different types, and a cast hides the buckets"

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies where a bucket column is cast to the type of the column that it is compared with."""
        other = movement.other
        if other is None or not movement.needed:
            return None
        for source, theirs in zip(movement.sources, other.sources, strict=False):
            if not source or not theirs or not source.cast or source.scan.table not in movement.tables:
                continue
            here = movement.tables[source.scan.table or ""]
            there = movement.tables.get(theirs.scan.table or "")
            own = here.columns.get(source.column.name.lower(), "?")
            their_type = theirs.cast or (there.columns.get(theirs.column.name.lower(), "?") if there else "?")
            if own == source.cast or (theirs.cast and there and there.columns.get(theirs.column.name.lower()) == own):
                continue
            own_type = retype(here, {source.column.name.lower(): source.cast})
            changes: list[Change] = [own_type, *match_other(movement)]
            return Explanation(
                f"{here.name}.{source.column.name} is {own} and is compared with "
                f"{theirs.scan.table}.{theirs.column.name}, which is {their_type}: it is cast to {source.cast}, and "
                "the hash of that is another one.",
                tuple(dict.fromkeys((here.name, theirs.scan.table or ""))),
                tuple(changes),
            )
        return None
