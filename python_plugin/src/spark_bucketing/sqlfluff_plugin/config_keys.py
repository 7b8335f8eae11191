"""Define the config keys that the materializations read, and find the key that a misspelt one means.

The macros validate_config_keys and nearest_name apply the same rules at run time; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

#: Each config key, with the names that people use for it by mistake.
OURS: Mapping[str, tuple[str, ...]] = {
    "clustered_by": (
        *("cluster_by", "bucket_by", "bucketed_by", "bucket_columns", "bucket_keys", "bucket_key", "bucket_cols"),
        *("cluster_columns", "cluster_cols", "cluster_key", "cluster_keys"),
    ),
    "buckets": ("bucket", "num_buckets", "n_buckets", "bucket_count", "number_of_buckets", "into_buckets"),
    "sorted_by": ("sort_by", "order_by", "ordered_by", "sort_columns", "sort_cols", "sort_keys", "sort_key"),
    "bucket_hash": ("hash_function", "bucketing_hash", "bucketing"),
    "file_format": ("format", "stored_as"),
    "partition_by": ("partitioned_by", "partition_columns", "partition_cols", "partition_key", "partition_keys"),
    "write_tasks": ("num_tasks", "num_write_tasks"),
    "location_root": ("location",),
    "tblproperties": ("table_properties",),
    "on_bucket_change": ("on_buckets_change", "on_layout_change"),
    **dict.fromkeys(
        (
            *("unique_key", "on_schema_change", "merge_update_columns", "merge_exclude_columns"),
            *("incremental_predicates", "incremental_strategy", "options", "batch_size", "event_time", "lookback"),
        ),
        (),
    ),
}
_SHARED = (
    *(
        "file_format",
        "partition_by",
        "location_root",
        "tblproperties",
        "options",
        "clustered_by",
        "buckets",
        "sorted_by",
    ),
    *("bucket_hash", "write_tasks", "unique_key", "on_schema_change", "incremental_strategy", "merge_update_columns"),
    *("merge_exclude_columns", "incremental_predicates"),
)
#: The same for organized tables.
ORGANIZED: Mapping[str, tuple[str, ...]] = {
    "rows_per_file": (
        *("max_rows_per_file", "records_per_file", "max_records_per_file", "maxrecordsperfile", "rows_per_files"),
    ),
    "target_file_size": ("file_size", "max_file_size", "bytes_per_file", "filesize"),
    "num_files": ("files", "number_of_files", "file_count"),
    "files_per_partition": ("num_files_per_partition", "files_per_partitions"),
    "file_strategy": ("strategy", "files_strategy", "repartition_strategy", "distribution"),
    "range_by": ("organized_by", "organize_by", "organised_by", "ranged_by", "zorder_by"),
    "implicit_partition_by": ("split_by", "splitted_by", "implicit_partitions_by"),
    "range_boundaries_from": ("bounds_from", "bounds", "intervals_from", "boundaries_from"),
    "scale_factor": ("scale", "scaling_factor"),
    "delete_when": ("deletes_when", "delete_if", "delete_condition"),
    "insert_when": ("inserts_when", "insert_if"),
    "update_when": ("updates_when", "update_if"),
    "merge_checks": ("merge_check", "checks"),
    **{key: OURS[key] for key in _SHARED},
}
#: Keys of dbt and of other adapters, which must not be reported as typos.
OTHERS = frozenset(
    (
        *("predicates", "begin", "sort", "dist", "tags", "meta"),
        *("docs", "group", "alias", "schema", "database", "access"),
        *("enabled", "contract", "quoting", "grants", "packages", "materialized"),
        *("full_refresh", "persist_docs", "column_types", "freshness", "sql_header", "pre-hook"),
        *("post-hook", "pre_hook", "post_hook", "on_configuration_change", "concurrent_batches", "static_analysis"),
        *("matched_condition", "not_matched_condition"),
    )
)


def meant_key(key: str, keys: Mapping[str, tuple[str, ...]] = OURS) -> str | None:
    """Return the key that a misspelt key means; None if the key is valid or resembles no valid key."""
    if key in keys or key in OTHERS:
        return None
    plain = key.lower().replace("-", "_")
    known = [ours for ours, slips in keys.items() if plain == ours or plain in slips]
    return known[-1] if known else nearest_name(key, keys, within=1)


def nearest_name(word: str, names: Iterable[str], within: int = 2) -> str | None:
    """Return the name that a word is a typo of, or None.

    Args:
        word: the word as written.
        names: the valid names.
        within: the largest edit distance that counts as a typo; two swapped letters count as one edit.
    """
    nearest, nearest_distance = None, within + 1
    plain = re.sub("[^a-z0-9]", "", word.lower())
    for name in names:
        other = re.sub("[^a-z0-9]", "", name)
        if abs(len(plain) - len(other)) >= nearest_distance:
            continue
        distance = _edit_distance(plain, other)
        if distance == 2 and sorted(plain) == sorted(other):
            distance = 1
        # Two edits are too many in a short word.
        if distance < nearest_distance and distance <= len(other) // 3:
            nearest, nearest_distance = name, distance
    return nearest


def _edit_distance(word: str, other: str) -> int:
    """Return the Levenshtein distance of two words."""
    row = list(range(len(other) + 1))
    for number, letter in enumerate(word, start=1):
        above, row = row, [number]
        for place, other_letter in enumerate(other):
            row.append(min(row[-1] + 1, above[place + 1] + 1, above[place] + (letter != other_letter)))
    return row[-1]
