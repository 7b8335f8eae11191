"""What decides over a plan beside the query: settings and tables, as they are or as they would be after a fix."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from spark_bucketing.eligibility.model import TableFacts
from spark_bucketing.eligibility.partitions import spec_of_selected
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.plan import Node
from spark_bucketing.plan.folders import Folders
from spark_bucketing.plan.lists import Attribute
from spark_bucketing.spec import BucketSpec

# Settings that rules read, with Spark's own defaults for the case that nobody tells their values.
DEFAULTS: Mapping[str, str] = {
    "spark.sql.extensions": "",
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.sources.bucketing.enabled": "true",
    "spark.sql.sources.bucketing.autoBucketedScan.enabled": "true",
    "spark.sql.legacy.bucketedTableScan.outputOrdering": "false",
    "spark.sql.bucketing.coalesceBucketsInJoin.enabled": "false",
    "spark.sql.bucketing.coalesceBucketsInJoin.maxBucketRatio": "4",
    "spark.sql.requireAllClusterKeysForCoPartition": "true",
    "spark.sql.requireAllClusterKeysForDistribution": "false",
    "spark.sql.unionOutputPartitioning": "true",
    "spark.sql.execution.replaceHashWithSortAgg": "true",
    "spark.sql.hive.convertMetastoreParquet": "true",
    "spark.sql.hive.convertMetastoreOrc": "true",
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.bucketing.enabled": "true",
    "spark.bucketing.read.mergeFiles": "64",
    "spark.bucketing.read.sparkLayout": "true",
    "spark.bucketing.read.check": "true",
    "spark.bucketing.read.early": "checked",
    "spark.bucketing.join.alignment": "auto",
    "spark.bucketing.union.enabled": "true",
    "spark.bucketing.write.distribute": "true",
}
SETTINGS: tuple[str, ...] = tuple(DEFAULTS)

# What SET answers for a setting without a value.
_UNDEFINED = "<undefined>"
# What EXPLAIN says of a scan that could be read as bucketed, if anything above made use of it.
_UNUSED = re.compile(
    r"no operator needs its buckets|disabled by (?:query planner|configuration)|bucket column(?:\(s\)| .+ is) not read"
)
_MERGED = "spark.bucketing.read.mergeFiles"
_SPREADING = ("boolean", "tinyint", "smallint", "int", "bigint", "date", "string", "decimal")
_BUCKETED = re.compile(r"^(?P<bucketed>true|false)(?: \((?P<what>.*)\))?$", re.DOTALL)


@dataclass(frozen=True)
class BucketRead:
    """A scan that is read as bucketed: partition i holds the rows whose hash of these columns is i."""

    bucket_hash: str
    columns: tuple[Attribute, ...]
    buckets: int
    order: tuple[Attribute, ...]


@dataclass(frozen=True)
class World:
    """Settings and tables.

    Args:
        settings: Spark's settings by name; those that are missing have Spark's default.
        tables: what is known of the tables.
        rewritten: tables whose files a fix has written anew, one sorted file for each bucket.
        retyped: columns with another type than the plan's, by table.
        skipped: numbers of operators that a rewritten query does not have.
        unwrapped: numbers of joins whose keys are plain columns in a rewritten query.
        changed: settings that differ from those that the plan was made with.
        folders: those of the partitions that scans select, where Spark tells them.
        aligns_far: the extension joins one-to-many above Spark's ratio as well, for what it knows of cores and bytes.
    """

    settings: Mapping[str, str]
    tables: Mapping[str, TableFacts]
    rewritten: frozenset[str] = frozenset()
    retyped: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    skipped: frozenset[int] = frozenset()
    unwrapped: frozenset[int] = frozenset()
    changed: frozenset[str] = frozenset()
    folders: Folders = field(default_factory=dict)
    aligns_far: bool = False

    def get(self, name: str) -> str:
        """Value of a setting."""
        value = self.settings.get(name, _UNDEFINED)
        return DEFAULTS.get(name, "") if value == _UNDEFINED else value

    def on(self, name: str) -> bool:
        """Whether a setting is true."""
        return self.get(name).strip().lower() == "true"

    def number(self, name: str) -> int:
        """Value of a setting that is a number; Spark's default when it is none."""
        value = self.get(name)
        return int(value if re.fullmatch(r"-?\d+", value) else DEFAULTS[name])

    @property
    def loaded(self) -> bool:
        """Whether the session has the extension, switched on or not."""
        return EXTENSION_CLASS in [name.strip() for name in self.get("spark.sql.extensions").split(",")]

    @property
    def extension(self) -> bool:
        """Whether the extension plans this session's queries."""
        return self.loaded and self.on("spark.bucketing.enabled")

    @property
    def uses_early(self) -> bool:
        """Whether the extension uses buckets below a limit without having checked them before."""
        return self.get("spark.bucketing.read.early") == "probed"

    def extension_reads(self, table: str | None, spec: BucketSpec | None = None) -> bool:
        """Whether the extension reads a bucketed table; the Spark layout that it does not read is stock Spark's.

        Args:
            table: its name.
            spec: that of the partitions that are read, where it is not the table's.
        """
        facts = self.tables.get(table or "")
        spec = spec or (facts.spec if facts else None)
        if facts is None or spec is None or not self.extension:
            return False
        if spec.bucket_hash == "spark" and not self.on("spark.bucketing.read.sparkLayout"):
            return False
        return all(_spreads(facts.columns.get(name.lower(), "string")) for name in spec.bucket_columns)

    def spec(self, table: str | None) -> BucketSpec | None:
        """How a table is bucketed by its metadata."""
        facts = self.tables.get(table or "")
        return facts.spec if facts else None

    def setting(self, settings: Mapping[str, str]) -> World:
        """The same with other settings."""
        return replace(self, settings={**self.settings, **settings}, changed=self.changed | settings.keys())

    def bucketing(self, table: str, spec: BucketSpec) -> World:
        """The same with a table that was written anew with another spec."""
        facts = self.tables[table]
        return replace(
            self,
            tables={**self.tables, table: replace(facts, spec=spec, files_per_bucket=1, partitions=None)},
            rewritten=self.rewritten | {table},
        )

    def retyping(self, table: str, columns: Mapping[str, str]) -> World:
        """The same with a table that was written anew with other types."""
        facts = self.tables[table]
        changed = replace(facts, columns={**facts.columns, **columns})
        return replace(
            self,
            tables={**self.tables, table: changed},
            retyped={**self.retyped, table: {**self.retyped.get(table, {}), **columns}},
        )


def bucketed_note(scan: Node) -> tuple[bool | None, str]:
    """What EXPLAIN says in the line `Bucketed:` of a scan: yes, no or nothing, and what stands in brackets."""
    found = _BUCKETED.match(scan.details.get("Bucketed", ""))
    return (None, "") if found is None else (found["bucketed"] == "true", found["what"] or "")


def objection(scan: Node) -> str | None:
    """Why the extension reads a bucketed table plainly although it could be of use, in its own words."""
    bucketed, what = bucketed_note(scan)
    return what if bucketed is False and not _UNUSED.fullmatch(what) else None


_EARLY = ("a limit may end the query", "the overwrite deletes old rows", "the write publishes rows")


def waits(scan: Node) -> bool:
    """Whether the extension reads a table plainly only because a limit or a write may come before its checks."""
    return (objection(scan) or "").startswith(_EARLY)


def reads_all_partitions(scan: Node) -> bool:
    """Whether no filter has left out partitions before Spark listed them."""
    return scan.details.get("Location", "").startswith("CatalogFileIndex")


def partitions_read(scan: Node, facts: TableFacts) -> int:
    """How many partitions of a table a scan reads, as far as EXPLAIN tells; 1 for a table without partitions.

    EXPLAIN prints one path and counts the others; where all partitions are read, it prints the table's own, and there
    are taken to be two.
    """
    if not facts.partition_columns:
        return 1
    if reads_all_partitions(scan):
        return 2
    more = re.search(r"\.\.\. (\d+) entries\]$", scan.details.get("Location", ""))
    return 1 + (int(more[1]) if more else 0)


def bucket_read(scan: Node, world: World) -> BucketRead | None:
    """How Spark can read a scan's table as bucketed, whether or not it has reason to; None for a plain read."""
    spec = world.spec(scan.table)
    if spec is None or scan.table is None or not world.on("spark.sql.sources.bucketing.enabled"):
        return None
    facts = world.tables[scan.table]
    spec = spec_of_selected(scan, facts, world.folders)
    if spec is None:
        return None
    extension = world.extension_reads(scan.table, spec)
    if spec.bucket_hash == "hive" and (not extension or not _converted(scan)):
        return None
    if objection(scan) is not None and scan.table not in world.rewritten and not (waits(scan) and world.uses_early):
        return None
    columns = _columns(scan, spec.bucket_columns)
    if len(columns) < len(spec.bucket_columns):
        return None
    order = _columns(scan, spec.sort_columns) if _ordered(scan, facts, world, extension) else ()
    return BucketRead(spec.bucket_hash, columns, spec.num_buckets, order)


def _converted(scan: Node) -> bool:
    # Spark reads these with its own readers, which know buckets; Hive's reader does not.
    return scan.title.startswith(("parquet", "orc"))


def _spreads(column_type: str) -> bool:
    return column_type.lower().split("(")[0].strip() in _SPREADING


def _columns(scan: Node, names: tuple[str, ...]) -> tuple[Attribute, ...]:
    """The columns by their names, up to the first one that the scan does not read."""
    by_name = {attribute.name.lower(): attribute for attribute in scan.output or ()}
    found: list[Attribute] = []
    for name in names:
        if name.lower() not in by_name:
            break
        found.append(by_name[name.lower()])
    return tuple(found)


def _ordered(scan: Node, facts: TableFacts, world: World, extension: bool) -> bool:
    files = 1 if facts.name in world.rewritten else facts.files_per_bucket or 1
    if extension:
        bucketed, what = bucketed_note(scan)
        if bucketed and what and facts.name not in world.rewritten and _MERGED not in world.changed:
            return what.endswith(("sorted", "merged"))
        merged = world.number(_MERGED)
        return files == 1 or files * partitions_read(scan, facts) <= merged
    single = files * partitions_read(scan, facts) == 1
    return single and world.on("spark.sql.legacy.bucketedTableScan.outputOrdering")
