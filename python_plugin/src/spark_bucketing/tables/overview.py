"""Read the files, seals, bucket specs and file statistics of tables, and verify the tables against them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import NamedTuple
from urllib.parse import unquote

from spark_bucketing import sql
from spark_bucketing.errors import SparkError, State, TableError
from spark_bucketing.spec import (
    HASH_OF_VERSION,
    STATED_VERSIONS,
    VERSION_OF_HASH,
    VERSION_PROPERTY,
    BucketHash,
    BucketSpec,
)
from spark_bucketing.tables.file_statistics import (
    FileStats,
    Organized,
    as_organized,
    read_file_statistics,
    verify_file_statistics,
)
from spark_bucketing.tables.metadata import (
    Merging,
    Partition,
    Status,
    TableMetadata,
    existing_table,
    one_spelling,
    read_partitions,
    refuse_view,
    seal_table,
)
from spark_bucketing.tables.rewrite import covering, rewrite_command
from spark_bucketing.tables.warehouse import Warehouse
from spark_bucketing.units import count

# Hive and Trino read these names. Spark writes 00003_0_part-..., Hive 000003_0 and 000003_0_copy_1, Trino
# 000003_0_<query id>, and transactions of Hive bucket_00003.
_HIVE = re.compile(r"(?:bucket_(?=\d+(?:_\d+)?$)|(?=\d+_\d))(\d{1,9})(?:_\d+.*)?")
# part-<task>-<uuid>_<bucket>.c000.<codec>.<format>. Spark's BucketingUtils has no prefix, so it finds bucket 0 in every
# file that Hive writes.
_SPARK = re.compile(r"part-.*_(\d{1,9})(?:\..*)?")


def bucket_of(file_name: str, bucket_hash: BucketHash) -> int | None:
    """Return the bucket id in a file's name, whose form depends on the hash, or None without an id."""
    match = (_HIVE if bucket_hash in VERSION_OF_HASH else _SPARK).fullmatch(file_name)
    return int(match[1]) if match else None


@dataclass(frozen=True)
class DataFile:
    """A data file: its path as Spark returns it, its number of rows and its size in bytes."""

    path: str
    rows: int
    size: int = 0

    @property
    def folder(self) -> str:
        """Return the path without the file name. Each partition has its own directory."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """Return the file's name without its directory."""
        return self.path.rpartition("/")[2]


class FileSizes(NamedTuple):
    """Statistics of file sizes in bytes."""

    smallest: int
    median: int
    largest: int
    total: int

    @classmethod
    def of(cls, sizes: Sequence[int]) -> FileSizes | None:
        """Summarize the given file sizes in bytes, or return None if there are none."""
        return cls(min(sizes), int(median(sizes)), max(sizes), sum(sizes)) if sizes else None


class Evenness(NamedTuple):
    """How evenly rows are distributed over buckets."""

    buckets: int
    empty: int  # number of buckets without rows
    skew: float  # rows of the largest bucket, divided by the mean of all buckets

    @classmethod
    def of(cls, rows: Sequence[int], buckets: int) -> Evenness:
        """Compare the numbers of rows of buckets, of which those without rows may be missing."""
        return cls(buckets, buckets - sum(number > 0 for number in rows), max(rows) * buckets / sum(rows))

    def __str__(self) -> str:
        """Describe the evenness, such as `8 of 16 buckets are empty, and the largest has 2.0 times the mean`."""
        empty = f"{self.empty} of {self.buckets} buckets {'is' if self.empty == 1 else 'are'} empty"
        largest = f"{f'{empty}, and the largest' if self.empty else f'the largest of {self.buckets} buckets'} has"
        return f"{largest} {self.skew:.1f} times the mean number of rows"


@dataclass(frozen=True)
class SpecFiles:
    """The files of all partitions that have the same bucket spec."""

    spec: BucketSpec
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        """Return the total number of rows in all files."""
        return sum(file.rows for file in self.files)

    @property
    def folders(self) -> set[str]:
        """Return the directories that contain the files."""
        return {file.folder for file in self.files}

    @property
    def skew(self) -> float | None:
        """Return the rows of the largest bucket over all partitions, divided by the mean, or None if unknown."""
        return self.evenness.skew if self.evenness else None

    @property
    def evenness(self) -> Evenness | None:
        """Return how evenly the rows are distributed over the buckets, or None if unknown."""
        if not self.rows or self.without_bucket() or self.beyond():
            return None
        rows: Counter[int | None] = Counter()
        for file in self.files:
            rows[self.bucket(file)] += file.rows
        return Evenness.of(list(rows.values()), self.spec.num_buckets)

    def bucket(self, file: DataFile) -> int | None:
        """Return the bucket id in a file's name."""
        return bucket_of(file.name, self.spec.bucket_hash)

    def without_bucket(self) -> list[DataFile]:
        """Return the files whose names contain no bucket id."""
        return [file for file in self.files if self.bucket(file) is None]

    def beyond(self) -> list[DataFile]:
        """Return the files whose bucket id is not less than the number of buckets in the spec."""
        return [file for file in self.files if (self.bucket(file) or 0) >= self.spec.num_buckets]


# For tables in the Hive layout with these formats, Spark uses its own readers, which return the file of a row.
_READABLE_HIVE_FORMATS = ("parquet", "orc")
_LISTING = "spark_bucketing_listing"
# Buckets count as uneven from this skew. Fewer rows per bucket are uneven by chance.
_UNEVEN, _ROWS_PER_BUCKET = 1.5, 100
_COMPARED_ROWS = 1_000_000


@dataclass(frozen=True)
class Overview:
    """A bucketed or organized table with its files. Attributes that the session cannot read are None."""

    table: TableMetadata  # with its partitions if the session has the extension
    spec: BucketSpec | None = None  # of a bucketed table, with the names of columns as the metastore has them
    files: tuple[DataFile, ...] = ()  # of a bucketed table
    unreadable: str = ""  # why these files cannot be read
    merging: Merging | None = None  # settings for mixed specs; None without the extension
    organized: Organized | None = None
    statistics: tuple[FileStats, ...] | None = None  # of an organized table
    advice: str = ""  # about buckets of uneven size
    is_verified: bool = False  # whether all checks ran, and not only those that need no further reads
    is_deep: bool = False  # whether rows were read
    sealed: tuple[Partition, ...] = ()  # from a dry run of SEAL BUCKETS
    problem: str = ""  # why Spark could not read the rows

    @cached_property
    def by_spec(self) -> tuple[SpecFiles, ...]:
        """Group the files by the bucket spec of their partition. Unsealed partitions have the table's spec."""
        if self.spec is None:
            return ()
        parts = self.table.partitions if self._is_evolving else ()
        own_specs = {one_spelling(part.location): part.spec for part in parts if part.spec}
        files: dict[BucketSpec, list[DataFile]] = {}
        for file in self.files:
            files.setdefault(own_specs.get(file.folder, self.spec), []).append(file)
        return tuple(SpecFiles(spec, tuple(found)) for spec, found in files.items()) or (SpecFiles(self.spec, ()),)

    @property
    def _is_evolving(self) -> bool:
        """Return whether each partition may have its own spec, so that single partitions can be rewritten."""
        return bool(self.table.columns) and self.spec is not None and self.spec.in_hive_layout

    @property
    def rows(self) -> int:
        """Return the total number of rows in all files."""
        return sum(file.rows for file in self.statistics or self.files)

    @property
    def partitions(self) -> int:
        """Return the number of partitions that have files, or 1 for an unpartitioned table."""
        return len({file.folder for file in self.files}) if self.table.columns else 1

    @property
    def skew(self) -> float | None:
        """Return the largest skew, each of one spec, because different numbers of buckets have different means."""
        skews = [part.skew for part in self.by_spec if part.rows]
        return max((skew for skew in skews if skew is not None), default=None) if None not in skews else None

    @property
    def sizes(self) -> FileSizes | None:
        """Summarize the sizes of the table's files in bytes, or return None if they are unknown."""
        return FileSizes.of([file.size for file in self.statistics or self.files])

    @property
    def state(self) -> State:
        """Return the state of the table. Findings take precedence over checks that could not run."""
        if self.findings:
            return "wrong"
        return "unknown" if self.unknown else "ok"

    @property
    def unknown(self) -> str:
        """Return why some checks could not run, or an empty string if all of them ran."""
        needs_seals = self.is_verified and self.spec is not None and self.spec.in_hive_layout
        seals = "The table's seals are unknown, because the session does not load the extension."
        return self.problem or self.unreadable or (seals if needs_seals and self.merging is None else "")

    @property
    def unsealed(self) -> tuple[Partition, ...]:
        """Return the partitions whose files have no valid seal."""
        # In the Spark layout, stock Spark uses buckets without a seal.
        in_spark_layout = self.table.spec is not None and not self.table.spec.in_hive_layout
        fine = {Status.SEALED, Status.EMPTY} | ({Status.NOT_SEALED} if in_spark_layout else set())
        return tuple(part for part in self.table.partitions if part.status not in fine)

    @cached_property
    def findings(self) -> tuple[str, ...]:
        """Return one message for each finding, with a fix."""
        return tuple(self._findings())

    def _findings(self) -> Iterator[str]:
        name = self.table.name
        yield from self._file_names()
        refused = {part.name: part for part in self.sealed if part.status == Status.REFUSED}
        for part in refused.values():
            rewrite = f"rewrite it (spark-bucketing table rewrite {name}, or dbt run)"
            yield f"{part.name or 'the table'} has {part.problem}: {rewrite}."
        yield from seal_findings(name, [part for part in self.unsealed if part.name not in refused])
        if self.is_verified:
            yield from _version_findings(self.table, self.sealed)
            yield from _statistics_findings(name, self.statistics or ())

    def _file_names(self) -> Iterator[str]:
        """Yield what is wrong with the names of the files, each with an example and a fix."""
        unnamed = [file for part in self.by_spec for file in part.without_bucket()]
        wrong = [(unnamed, "without a bucket id in the name", "a writer ignored the buckets")]
        for part in self.by_spec:
            what = f"with a bucket id above {part.spec.num_buckets - 1}"
            wrong.append((part.beyond(), what, "a writer used more buckets than the table has"))
        for files, what, why in wrong:
            yield from _of_files(files, what, f"{why}; {self._rewrite(file.folder for file in files)}.")
        # The numbers of files by directory and bucket.
        numbers: Counter[tuple[str, int]] = Counter()
        for part in self.by_spec:
            for file in part.files:
                bucket_id = part.bucket(file)
                if bucket_id is not None:
                    numbers[file.folder if self.table.columns else "", bucket_id] += 1
        if crowded := sorted((*place, number) for place, number in numbers.items() if number > 1):
            folder, bucket, number = crowded[0]
            values = "/".join(part for part in folder.split("/") if "=" in part)
            where = f" of {values}" if values else ""
            fix = self._rewrite(folder for folder, _, _ in crowded)
            yield (
                f"{count(len(crowded), 'bucket')} with more than one file, such as bucket {bucket}{where} "
                f"with {number}: a bucket is sorted as a whole only if it has a single file; {fix}."
            )

    def _rewrite(self, folders: Iterable[str]) -> str:
        """Suggest a fix for the files in these directories, if possible only for their partitions."""
        table, wanted = self.table, set(folders)
        chosen = [part for part in table.partitions if one_spelling(part.location) in wanted]
        if not self._is_evolving or not chosen:
            return "rebuild the table (dbt run --full-refresh)"
        return f"rewrite these partitions ({rewrite_command(table.name, covering(table, chosen))})"


def seal_findings(table: str, unsealed: Sequence[Partition]) -> Iterator[str]:
    """Return one message about partitions with missing files, and one about other partitions without a valid seal."""
    seal = f"spark-bucketing table seal {table}"
    restore = f"restore them from a backup, or accept the loss ({seal})"
    scan = f"queries use an ordinary scan; seal the files ({seal})"
    for is_missing, whole, several, effect in (
        (True, "files are missing", "with missing files", restore),
        (False, "no valid seal", "without a valid seal", scan),
    ):
        if parts := [part for part in unsealed if (part.status == Status.FILES_MISSING) is is_missing]:
            found = f"[{parts[0].status}] {parts[0].problem}".rstrip()
            others = f"{count(len(parts), 'partition')} {several}, such as {parts[0].name}"
            yield f"{others if parts[0].name else whole} {found}: {effect}."


def read_overviews(
    warehouse: Warehouse, schema: str, names: Sequence[str] = (), on_progress: Callable[[str], None] = lambda _: None
) -> Iterator[Overview]:
    """Read the overviews of tables."""
    if not (chosen := [qualified(name, schema) for name in names]):
        listed = warehouse.rows(f"show tables in {sql.name(schema)}")
        tables = sorted(row["tableName"] for row in listed if not row["isTemporary"])
        chosen = [qualified(sql.name(name), schema) for name in tables]
    merging = merging_of(warehouse) if warehouse.has_extension() else None
    for number, name in enumerate(chosen, 1):
        on_progress(f"listing files of {name}" + (f" ({number:,} of {len(chosen):,} tables)" if chosen[1:] else ""))
        found = _overview(warehouse, name, merging, bool(names))
        if found:
            yield found


def merging_of(warehouse: Warehouse) -> Merging:
    """Return the session settings that control how Spark reads different numbers of buckets together."""
    tasks = warehouse.rows(
        "select max(task) + 1 as tasks from (select spark_partition_id() as task from range(100000))"
    )
    settings = sql.settings_of(warehouse.rows)
    return Merging(
        settings.get("spark.bucketing.join.alignment", "auto"),
        int(tasks[0]["tasks"]),
        int(settings.get("spark.sql.bucketing.coalesceBucketsInJoin.maxBucketRatio", "4")),
    )


def qualified(name: str, schema: str) -> str:
    """Return the name of a table, qualified with a schema."""
    parts = sql.parts(name)
    if not 1 <= len(parts) <= 2:
        raise TableError(
            f"`{name}` is not a table name.",
            expected="`schema.table`, or a table of the target's schema",
            instead="write the name as in `sales.orders`",
        )
    return ".".join(map(sql.readable_name, parts if len(parts) == 2 else (schema, *parts)))


def _overview(warehouse: Warehouse, name: str, merging: Merging | None, is_named: bool) -> Overview | None:
    """Read the overview of a table; if it is neither bucketed nor organized, raise an error if it is named."""
    table = existing_table(warehouse, name)
    spec = BucketSpec.from_description(table.details)
    is_view = "VIEW" in table.details.get("Type", "").upper()
    organized = None if is_view else as_organized(table)
    if organized:
        return Overview(table, organized=organized, statistics=tuple(read_file_statistics(warehouse, organized)))
    if (is_view or not spec) and not is_named:
        return None
    refuse_view(table)
    if merging:
        table = replace(table, partitions=read_partitions(warehouse, table.name))
    if spec:
        try:
            found = Overview(table, spec, _files(warehouse, table, spec), merging=merging)
        except SparkError as error:
            found = Overview(table, spec, unreadable=str(error), merging=merging)
        return replace(found, advice=_advice(warehouse, found)) if is_named and merging else found
    if any(part.spec for part in table.partitions):
        return Overview(table, merging=merging)
    raise TableError(
        f"Table `{name}` has no buckets, no sealed partitions and no file statistics.",
        expected="a bucketed table, or the table of a dbt model with `range_by` or `implicit_partition_by`",
        instead="name such a table, or omit the name to list all tables of the schema",
    )


def _advice(warehouse: Warehouse, overview: Overview) -> str:
    """Say how the other bucketing version would distribute the rows of uneven buckets, or return an empty string.

    Version 1 hashes an integer to itself, so that keys with a pattern fill few buckets.
    """
    version_1 = [part for part in overview.by_spec if part.spec.bucket_hash == "hive"]
    part = max(version_1, key=lambda part: part.skew or 0, default=None)
    now = part.evenness if part else None
    if not part or not now or now.skew < _UNEVEN or part.rows < _ROWS_PER_BUCKET * now.buckets:
        return ""
    keys = ", ".join(map(sql.name, part.spec.bucket_columns))
    rows = f"select {keys} from {sql.table(overview.table.name)} limit {_COMPARED_ROWS}"  # noqa: S608
    bucket = f"hive2_bucket({now.buckets}, {keys})"
    counted = warehouse.rows(f"select {bucket} as bucket, count(*) as rows from ({rows}) group by 1")  # noqa: S608
    other = Evenness.of([int(row["rows"]) for row in counted], now.buckets)
    if other.skew > 0.8 * now.skew:
        return f"{now}; bucket_hash='hive2' would not help, because few keys have most rows."
    sample = "" if overview.rows <= _COMPARED_ROWS else f", measured on {_COMPARED_ROWS:,} rows"
    use = "set it in the model, and rebuild the table (dbt run --full-refresh)"
    return f"{now}; with bucket_hash='hive2', {other}{sample}. To use it, {use}."


def _files(warehouse: Warehouse, table: TableMetadata, spec: BucketSpec) -> tuple[DataFile, ...]:
    """Return all files of a table with their row counts, which Spark reads from the file footers."""
    if spec.in_hive_layout and table.file_format not in _READABLE_HIVE_FORMATS:
        raise SparkError(
            f"The files of table `{table.name}` have a format without buckets.",
            found=table.file_format,
            expected="parquet or orc",
            instead="rebuild the table with one of these formats",
        )
    name = sql.table(table.name)
    # A bucketed scan would drop the rows of files whose ids are out of range, and would fail on names without an id.
    with sql.with_settings(warehouse.rows, {"spark.sql.sources.bucketing.enabled": "false"}):
        warehouse.change(f"refresh table {name}")
        # _metadata is not available: Spark resolves it before it selects its own reader for the Hive layout.
        counted = warehouse.rows(
            f"select uri, count(*) as rows from (select input_file_name() as uri from {name}) group by uri"  # noqa: S608
        )
    rows = {one_spelling(unquote(row["uri"])): int(row["rows"]) for row in counted}
    # Ignore directories below the table's directory that are not partitions.
    folders = {path.rpartition("/")[0] for path in rows} | {one_spelling(part.location) for part in table.partitions}
    folders |= set() if table.columns else {one_spelling(table.location)}
    listed = _sizes(warehouse, table)
    sizes = {path: size for path, size in listed.items() if path.rpartition("/")[0] in folders}
    return tuple(DataFile(path, rows.get(path, 0), sizes.get(path, 0)) for path in sorted({*rows, *sizes}))


def _sizes(warehouse: Warehouse, table: TableMetadata) -> dict[str, int]:
    """Return the size in bytes of each file in a table and its partitions, including files without rows."""
    home = one_spelling(table.location)
    others = {one_spelling(part.location) for part in table.partitions}
    found: dict[str, int] = {}
    for folder in (home, *sorted(other for other in others if not f"{other}/".startswith(f"{home}/"))):
        options = sql.properties({"path": folder, "recursiveFileLookup": "true"})
        warehouse.change(f"create or replace temporary view {_LISTING} using binaryFile options {options}")
        try:
            listed = warehouse.rows(f"select path, length from {_LISTING}")  # noqa: S608
            found |= {one_spelling(row["path"]): int(row["length"]) for row in listed}
        finally:
            warehouse.change(f"drop view if exists {_LISTING}")
    return found


def _version_findings(table: TableMetadata, sealed: Sequence[Partition]) -> Iterator[str]:
    """Compare the bucketing version that the table states with the version of its rows, as Hive and Trino do."""
    if table.spec is None or not table.spec.in_hive_layout:
        return
    name, before = table.name, _versions_of(table.partitions)
    versions = before | _versions_of(sealed)
    stated = table.version
    numbers = Counter(versions.values())
    common = max(numbers, key=lambda version: (numbers[version], version == stated), default=None)
    others = sorted(part for part, version in versions.items() if version != common)
    seal = f"seal the table (spark-bucketing table seal {name})"
    is_known = stated in HASH_OF_VERSION
    states = f"The table has {VERSION_PROPERTY} '{stated}'{'' if is_known else ', so Trino cannot read the table'}"
    is_whole = all(part.spec or not part.has_files for part in table.partitions)
    is_read = {part.name for part in table.partitions if part.has_files} <= {part.name for part in sealed}
    if common and not is_read and (others or (stated != common and not is_whole)):
        # Few rows match both versions, so a partition may get another version with its next seal.
        found = " and ".join(sorted(numbers))
        yield (
            f"{states}, and its partitions are sealed with version {found}: {seal}. The command compares the rows "
            "with both versions, and reports the partitions to rewrite and the property to set."
        )
        return
    if common and stated != common:
        yield (
            f"{states}{', but its' if is_known else '. Its'} rows are in buckets of version {common}"
            f"{', so Hive and Trino look for rows in the wrong buckets' if is_known else ''}: set the table "
            f"property (ALTER TABLE {name} SET TBLPROPERTIES ('{VERSION_PROPERTY}' = '{common}'))."
        )
    elif not is_known:
        yield (
            f"{states}. Spark and Trino support only {STATED_VERSIONS}: {seal}, and set the property to the "
            "version that the command finds."
        )
    if others:
        yield (
            f"{count(len(others), 'partition')} in buckets of version {versions[others[0]]}, such as {others[0]}, "
            f"but other partitions have version {common}: "
            f"{'' if stated == common else 'first set the table property, and then '}rewrite these partitions "
            f"(spark-bucketing table rewrite {name})."
        )
    again = sorted(part for part, version in before.items() if version != versions[part])
    if again:
        yield (
            f"{count(len(again), 'partition')} sealed with version {before[again[0]]}, such as {again[0]}, whose "
            f"rows also match version {versions[again[0]]}: {seal}."
        )


def _statistics_findings(name: str, statistics: Sequence[FileStats]) -> Iterator[str]:
    """Yield what is wrong with the file statistics, or with the ranges of files."""
    repair = f"rewrite the statistics (spark-bucketing table stats {name} --repair)"
    for state, what in (
        ("not-covered", "not in the file statistics"),
        ("wrong", "whose statistics differ from the rows"),
    ):
        yield from _of_files([file for file in statistics if file.state == state], what, f"{repair}.")
    overlapping = [file for file in statistics if file.overlaps]
    fix = "queries read both files; rebuild the table (dbt run --full-refresh)."
    yield from _of_files(overlapping, "whose range overlaps the range of another file", fix)


def _of_files(files: Sequence[DataFile | FileStats], what: str, fix: str) -> Iterator[str]:
    """Yield one message about files, if any, with an example and a fix."""
    if files:
        yield f"{count(len(files), 'file')} {what}, such as {files[0].name}: {fix}"


def _versions_of(partitions: Iterable[Partition]) -> dict[str, str]:
    """Return the bucketing versions of sealed partitions in the Hive layout, by the name of the partition."""
    return {
        part.name: VERSION_OF_HASH[part.spec.bucket_hash]
        for part in partitions
        if part.spec and part.spec.in_hive_layout
    }


def verify_table(warehouse: Warehouse, overview: Overview, deep: bool = False, where: str | None = None) -> Overview:
    """Run all checks that apply to a table."""
    verified = replace(overview, is_verified=True, is_deep=deep)
    try:
        if deep and overview.organized:
            return replace(verified, statistics=tuple(verify_file_statistics(warehouse, overview.organized)))
        if deep and overview.merging:
            sealed = seal_table(warehouse, overview.table.name, where, dry_run=True)
            return replace(verified, sealed=tuple(sealed))
    except SparkError as error:
        # The statistics were not compared with the rows.
        return replace(verified, statistics=None, problem=str(error))
    return verified
