"""What contradicts what: records, files, descriptors and properties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_bucketing.evolution.evidence import FileEvidence, disordered, misnamed, misplaced
from spark_bucketing.evolution.model import Partition, RecordState, Table, words
from spark_bucketing.evolution.records import EVOLVED
from spark_bucketing.evolution.rows import Listing
from spark_bucketing.evolution.warehouse import StoredFile
from spark_bucketing.spec import BucketSpec


@dataclass(frozen=True)
class Finding:
    """Something that contradicts something else.

    Args:
        subject: the partition, or the table.
        found: what there is.
        expected: what there should be.
        run: the command or statement that mends it.
    """

    subject: str
    found: str
    expected: str
    run: str


@dataclass(frozen=True)
class StoredTable:
    """A table's own spec in the two places that keep it.

    Args:
        descriptor: in the StorageDescriptor, which Hive and Trino go by.
        properties: in the table properties, which Spark goes by.
        hash_version: bucketing_version among the properties; Hive's default without one is 1.
        kept: whether the properties hold a schema at all; Spark goes by the descriptor where they do not.
    """

    descriptor: BucketSpec | None
    properties: BucketSpec | None
    hash_version: str = "1"
    kept: bool = True


def check_table(table: Table, stored: StoredTable | None) -> Iterator[Finding]:
    """Compare the places that keep the table's own spec.

    Args:
        table: as Spark sees it.
        stored: as the metastore has it; None where that cannot be asked.
    """
    if stored is None:
        return
    if stored.kept and stored.descriptor != stored.properties:
        clause = "the clause of the spec that is right (CLUSTERED BY ... INTO n BUCKETS, or NOT CLUSTERED)"
        yield Finding(
            table.name,
            f"its descriptor says {words(stored.descriptor)}, and Spark's table properties say "
            f"{words(stored.properties)}",
            "the same in both: Spark writes by the properties, Hive and Trino read by the descriptor",
            f"ALTER TABLE {table.name} with {clause}",
        )
    if stored.hash_version != "1" and (table.spec or stored.descriptor):
        yield Finding(
            table.name,
            f"bucketing_version is {stored.hash_version}",
            "1, the only version whose hash Spark computes",
            "leave its buckets to the engine that made it, or write the rows into a table of version 1",
        )


def check_partitions(
    table: Table, listing: Listing, evidence: Mapping[str, Sequence[FileEvidence]] | None = None
) -> Iterator[Finding]:
    """Compare each partition's record with its files and its descriptor.

    Args:
        table: with its partitions.
        listing: the files of each.
        evidence: what the rows of the files are; None when only names count.
    """
    for partition in table.partitions:
        yield from _check(table, partition, listing[partition.name], evidence)


def _check(
    table: Table,
    partition: Partition,
    listed: Sequence[StoredFile],
    evidence: Mapping[str, Sequence[FileEvidence]] | None,
) -> Iterator[Finding]:
    repair = f"spark-bucketing evolution repair {table.name}"
    claim = table.claim(partition)
    if partition.state is RecordState.BROKEN:
        yield Finding(
            partition.name, f"a broken record: {partition.problem}", "all of bucketing.*, as it is written", repair
        )
        return
    if partition.state is not RecordState.MISSING and not table.evolved and partition.spec != table.spec:
        # Another statement that wrote the table as it had read it before has taken the mark away.
        yield Finding(
            partition.name,
            f"a record of {words(partition.spec)}, in a table whose records are not read",
            f"{EVOLVED}=true among the table's properties, without which {words(table.spec)} are expected of its files",
            f"ALTER TABLE {table.name} SET TBLPROPERTIES ('{EVOLVED}' = 'true')",
        )
        return
    if partition.state is RecordState.MISSING and table.evolved:
        yield Finding(partition.name, "no record", "one in every partition of a table whose spec was altered", repair)
    spec = claim if isinstance(claim, BucketSpec) else None
    source = "its record" if partition.state is not RecordState.MISSING else "the table"
    if partition.described and partition.descriptor != spec:
        found = f"its descriptor, by which Hive and Trino read, says {words(partition.descriptor)}"
        yield Finding(partition.name, found, f"{words(spec)}, as {source} says", repair)
    if spec is not None and listed:
        files = (evidence or {}).get(partition.name)
        yield from _check_files(partition, spec, source, [file.name for file in listed], files, repair)


def _check_files(
    partition: Partition,
    spec: BucketSpec,
    source: str,
    names: Sequence[str],
    files: Sequence[FileEvidence] | None,
    repair: str,
) -> Iterator[Finding]:
    expected = f"files of {words(spec)}, as {source} says"
    wrong = misnamed(spec, names) or (misplaced(spec, files) if files is not None else None)
    if wrong:
        yield Finding(partition.name, f"the file {wrong}" if not wrong.startswith("rows") else wrong, expected, repair)
    elif files is not None and (unsorted := disordered(spec.sort_columns, files)):
        yield Finding(partition.name, f"the file {unsorted}", expected, repair)
