"""One-to-many bucket joins."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import let_extension_read, match_either, set_to
from spark_bucketing.eligibility.joining import divides
from spark_bucketing.eligibility.pairs import closest
from spark_bucketing.eligibility.steps import Change, Explanation, Reason, Step

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

    def explain(self, step: Step) -> Explanation | None:
        """Applies where the sides' bucket counts differ and divide."""
        pair = closest(step) if step.needed else None
        if pair is None or pair[0].hashed.kind != pair[1].hashed.kind:
            return None
        here, there = pair[0].hashed, pair[1].hashed
        counts = (here.partitions, there.partitions)
        if here.table is None or there.table is None or counts[0] == counts[1] or not divides(*counts):
            return None
        ratio = max(counts) // min(counts)
        limit = step.world.number(RATIO)
        over = f", and {ratio} is above {RATIO}={limit}" if ratio > limit else ""
        reads = step.world.extension_reads(here.table)
        setting = ALIGNMENT if reads else SETTING
        return Explanation(
            f"{here.table} has {counts[0]:,} buckets and {there.table} has {counts[1]:,}: {ratio} buckets of one "
            f"are 1 of the other, but {setting}={step.world.get(setting)} does not let them be read so{over}.",
            (here.table, there.table),
            (*self._settings(step, here.table, ratio, limit), *match_either(step)),
        )

    def _settings(self, step: Step, table: str, ratio: int, limit: int) -> tuple[Change, ...]:
        if step.world.extension_reads(table):
            return (set_to(step.world, {ALIGNMENT: "coalesce" if ratio > limit else "auto"}),)
        over = {RATIO: str(ratio)} if ratio > limit else {}
        return (set_to(step.world, {SETTING: "true", **over}), *let_extension_read(step.world, table))
