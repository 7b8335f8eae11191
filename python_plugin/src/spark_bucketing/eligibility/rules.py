"""All reasons, in the order in which they are asked: the first one that applies is the reason."""

from __future__ import annotations

from spark_bucketing.eligibility.movements import ABOVE, Explanation, Movement, Reason
from spark_bucketing.eligibility.reasons.bucket_columns_differ import BucketColumnsDiffer
from spark_bucketing.eligibility.reasons.bucket_count_mismatch import BucketCountMismatch
from spark_bucketing.eligibility.reasons.bucket_merging_off import BucketMergingOff
from spark_bucketing.eligibility.reasons.bucketing_off import BucketingOff
from spark_bucketing.eligibility.reasons.expression_over_key import ExpressionOverKey
from spark_bucketing.eligibility.reasons.hash_mismatch import HashMismatch
from spark_bucketing.eligibility.reasons.hive_layout_without_extension import HiveLayoutWithoutExtension
from spark_bucketing.eligibility.reasons.key_types_differ import KeyTypesDiffer
from spark_bucketing.eligibility.reasons.keys_do_not_cover_buckets import KeysDoNotCoverBuckets
from spark_bucketing.eligibility.reasons.layout_destroyed import LayoutDestroyed
from spark_bucketing.eligibility.reasons.merged_buckets_unsorted import MergedBucketsUnsorted
from spark_bucketing.eligibility.reasons.mixed_bucket_specs import MixedBucketSpecs
from spark_bucketing.eligibility.reasons.no_equi_join import NoEquiJoin
from spark_bucketing.eligibility.reasons.no_grouping_keys import NoGroupingKeys
from spark_bucketing.eligibility.reasons.not_sealed import NotSealed
from spark_bucketing.eligibility.reasons.order_lost import OrderLost
from spark_bucketing.eligibility.reasons.ordering_off import OrderingOff
from spark_bucketing.eligibility.reasons.repartition import Repartition
from spark_bucketing.eligibility.reasons.rows_just_moved import RowsJustMoved
from spark_bucketing.eligibility.reasons.several_files_per_bucket import SeveralFilesPerBucket
from spark_bucketing.eligibility.reasons.several_partitions import SeveralPartitions
from spark_bucketing.eligibility.reasons.side_not_bucketed import SideNotBucketed
from spark_bucketing.eligibility.reasons.sort_columns_mismatch import SortColumnsMismatch
from spark_bucketing.eligibility.reasons.superset_keys import SupersetKeys
from spark_bucketing.eligibility.reasons.total_order import TotalOrder
from spark_bucketing.eligibility.reasons.unexplained import Unexplained
from spark_bucketing.eligibility.reasons.union import UnionOfBuckets
from spark_bucketing.eligibility.reasons.unsupported_bucket_column import UnsupportedBucketColumn

# First what is no matter of buckets, then whether the table can be read as bucketed at all, then whether its buckets
# serve the keys, then whether they arrive, then whether they fit the other side; and sorts last.
RULES: tuple[Reason, ...] = (
    NoGroupingKeys(),
    NoEquiJoin(),
    Repartition(),
    SideNotBucketed(),
    BucketingOff(),
    HiveLayoutWithoutExtension(),
    MixedBucketSpecs(),
    UnsupportedBucketColumn(),
    NotSealed(),
    KeyTypesDiffer(),
    ExpressionOverKey(),
    KeysDoNotCoverBuckets(),
    UnionOfBuckets(),
    LayoutDestroyed(),
    SupersetKeys(),
    HashMismatch(),
    BucketMergingOff(),
    BucketCountMismatch(),
    BucketColumnsDiffer(),
    MergedBucketsUnsorted(),
    SortColumnsMismatch(),
    SeveralPartitions(),
    SeveralFilesPerBucket(),
    OrderingOff(),
    OrderLost(),
    RowsJustMoved(),
    Unexplained(),
)

# For what stands above all operators; no other reason is asked there.
AT_THE_END = TotalOrder()


def reason_for(movement: Movement) -> tuple[Reason, Explanation]:
    """The first reason that applies, and what it says."""
    for reason in (AT_THE_END,) if movement.place == ABOVE else RULES:
        if movement.about in reason.about and (explanation := reason.explain(movement)):
            return reason, explanation
    raise AssertionError("the last reason explains everything")
