"""One-to-many bucket joins."""

from __future__ import annotations

from spark_bucketing.eligibility.arrivals import divides
from spark_bucketing.eligibility.changes import Change, let_extension_read, match_either, set_to
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason

SETTING = "spark.sql.bucketing.coalesceBucketsInJoin.enabled"
RATIO = "spark.sql.bucketing.coalesceBucketsInJoin.maxBucketRatio"
ALIGNMENT = "spark.bucketing.join.alignment"


class BucketMergingOff(Reason):
    """One number of buckets is a multiple of the other, but nothing is allowed to read several buckets as one.

    **Anti-pattern**

    64 buckets against 16, on stock Spark with its default settings.

    **Best practice**

    Set `spark.sql.bucketing.coalesceBucketsInJoin.enabled=true`, and `...maxBucketRatio` to the ratio where it is
    above 4. Or load the extension, which reads k buckets as one, sorted; above that ratio only where there are buckets
    enough for all cores, unless `spark.bucketing.join.alignment` says `coalesce`.
    """

    slug = "bucket-merging-off"
    summary = "the bucket counts divide, but merging buckets is off or over its ratio"

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies where the sides' bucket counts differ and divide."""
        pair = movement.closest if movement.needed else None
        if pair is None or pair[0].kind != pair[1].kind:
            return None
        here, there = pair[0], pair[1]
        counts = (here.partitions, there.partitions)
        if here.table is None or there.table is None or counts[0] == counts[1] or not divides(*counts):
            return None
        ratio = max(counts) // min(counts)
        limit = movement.settings.number(RATIO)
        over = f", and {ratio} is above {RATIO}={limit}" if ratio > limit else ""
        reads = movement.by_extension
        setting = ALIGNMENT if reads else SETTING
        return Explanation(
            f"{here.table} has {counts[0]:,} buckets and {there.table} has {counts[1]:,}: {ratio} buckets of one "
            f"are 1 of the other, but {setting}={movement.settings.get(setting)} does not let them be read so{over}.",
            (here.table, there.table),
            (*self._settings(movement, ratio, limit), *match_either(movement)),
        )

    def _settings(self, movement: Movement, ratio: int, limit: int) -> tuple[Change, ...]:
        if movement.by_extension:
            return (set_to({ALIGNMENT: "coalesce" if ratio > limit else "auto"}),)
        over = {RATIO: str(ratio)} if ratio > limit else {}
        return (set_to({SETTING: "true", **over}), *let_extension_read(movement))
