"""Create what Spark needs of a hypothetical table: its catalog entry, its files, and the relation that a scan reads.

For a bucketed Hive table, stock Spark creates a relation without a bucket spec; only the table's catalog entry has
the spec. This module does the same without a Hive metastore. Py4J cannot use default arguments in Scala. Therefore,
this module lets Spark create instances of case classes, and then copies them.

The files are sparse files of the right size, with a seal. During planning, Spark reads the names, lengths and
modification times of files, but does not open the files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_bucketing.plan.whatif.hypothetical_table import HypotheticalTable
from spark_bucketing.spec import BucketSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHATIF_SCHEMA = "spark_bucketing_whatif"
_SQL = "org.apache.spark.sql"
# Modification time of the files.
_TIME = 1_600_000_000
# File names for bucket 0; in the Hive layout, a file name starts with a number.
_NAME = "part-00000-{:08x}-0000-0000-0000-000000000000_00000.c000.snappy.parquet"
_WORD = 1 << 64
# Common file systems do not support larger files.
_MOST_BYTES = 1 << 40


class Relations:
    """Creates relations in a session that has an in-memory catalog."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        folder.mkdir()
        self._session, self._jvm = session, session.sparkContext._jvm
        self._java = session._jsparkSession
        self._state = self._java.sessionState()
        self._folder, self._uri = folder, self._class("java.net.URI")
        self._prototypes: dict[str, tuple[Any, Any]] = {}
        self._classes = {
            name.rpartition(".")[2]: self._class(f"{_SQL}.{name}")
            for name in (
                "catalyst.QualifiedTableName", "catalyst.TableIdentifier", "catalyst.catalog.BucketSpec",
                "execution.datasources.CatalogFileIndex", "execution.datasources.LogicalRelation$",
            )
        }  # fmt: skip
        self._option = self._class("scala.Option").apply
        self._utils = self._class("org.apache.spark.api.python.PythonUtils")
        session.sql(f"create schema if not exists {WHATIF_SCHEMA} location '{folder.as_uri()}'")

    def entry(self, schema: str, table: str) -> None:
        """Add a table's name to the catalog; the table's relation is added to Spark's cache later."""
        entry, _ = self._prototype("parquet")
        self._external.createTable(self._copied(entry, identifier=self._identifier(schema, table)), True)

    def name(self, schema: str, table: str, relation: Any) -> None:
        """Bind the name of a table to a relation."""
        self._state.catalog().cacheTable(self._classes["QualifiedTableName"]("spark_catalog", schema, table), relation)

    def relation(self, table: HypotheticalTable) -> Any:
        """Return the relation of a table.

        The relation has its own copy of the catalog entry, because Spark's planning rules read this entry.
        """
        prototype, files = self._prototype(table.format)
        hive = table.spec is not None and table.spec.in_hive_layout
        spec = self._option(self._spec(table.spec, table.columns) if table.spec else None)
        changes: dict[str, Any] = {"provider": self._option("hive")} if hive else {}
        if table.spec and table.has_files:
            changes |= self._with_files(table, table.spec, prototype)
        entry = self._copied(
            prototype,
            identifier=self._identifier(WHATIF_SCHEMA, table.content),
            schema=self._schema({**table.data_columns(), **table.folder_columns()}),
            partitionColumnNames=self._names(table.folder_columns()),
            bucketSpec=spec,
            **changes,
        )
        self._external.createTable(entry, True)
        location = self._classes["CatalogFileIndex"](self._java, entry, table.size)
        changed = self._copied(
            files,
            self._java,
            location=location,
            partitionSchema=entry.partitionSchema(),
            dataSchema=entry.dataSchema(),
            bucketSpec=self._option(None) if hive else spec,
        )
        return getattr(self._classes["LogicalRelation$"], "MODULE$").apply(changed, entry)

    def _with_files(self, table: HypotheticalTable, spec: BucketSpec, prototype: Any) -> dict[str, Any]:
        """Return the fields of a catalog entry for a table with files: its location, and the seal of the files."""
        folder = self._folder / table.content
        files = write_files(folder, table.files_per_bucket, table.file_bytes, spec.in_hive_layout)
        fields = _iterated(self._schema(table.data_columns()).iterator())
        schema = {str(f.name()).lower(): (i, str(f.dataType().catalogString())) for i, f in enumerate(fields)}
        location = self._option(self._uri(folder.as_uri()))
        return {
            "storage": self._copied(prototype.storage(), locationUri=location),
            "properties": self._utils.toScalaMap(seal_of(spec, schema, files)),
        }

    @property
    def _external(self) -> Any:
        return self._state.catalog().externalCatalog()

    def _prototype(self, file_format: str) -> tuple[Any, Any]:
        """Return a catalog entry and a relation that Spark created for this file format."""
        if file_format not in self._prototypes:
            name = f"{WHATIF_SCHEMA}.like_{file_format}"
            # With a location, Spark does not create a directory.
            self._session.sql(f"create table {name} (c string) using {file_format} location '{self._folder.as_uri()}'")
            relation = self._java.table(name).queryExecution().analyzed().collectLeaves().head()
            self._prototypes[file_format] = (relation.catalogTable().get(), relation.relation())
        return self._prototypes[file_format]

    def _identifier(self, schema: str, table: str) -> Any:
        return self._classes["TableIdentifier"](table, self._option(schema), self._option("spark_catalog"))

    def _schema(self, columns: Mapping[str, str]) -> Any:
        # `void` is the type of a bare NULL; no table column has it.
        types = {name: "string" if kind.lower() == "void" else kind for name, kind in columns.items()}
        text = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in types.items())
        return self._state.sqlParser().parseTableSchema(text)

    def _spec(self, spec: BucketSpec, columns: Mapping[str, str]) -> Any:
        # Spark compares column names in the spelling of the table.
        spelled = {name.lower(): name for name in columns}
        by, order = (
            self._names([spelled.get(name.lower(), name) for name in names])
            for names in (spec.bucket_columns, spec.sort_columns)
        )
        return self._classes["BucketSpec"](spec.num_buckets, by, order)

    def _names(self, names: Sequence[str] | Mapping[str, str]) -> Any:
        return self._utils.toSeq(list(names))

    def _class(self, name: str) -> Any:
        found: Any = self._jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def _copied(self, instance: Any, *curried: Any, **changes: Any) -> Any:
        """Call the copy() method of a case class instance to change some of its fields."""
        names = _iterated(instance.productElementNames())
        values = (changes[name] if name in changes else instance.productElement(i) for i, name in enumerate(names))
        return instance.copy(*values, *curried)


def _iterated(iterator: Any) -> list[Any]:
    found = []
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def write_files(folder: Path, number: int, size: int, hive: bool) -> tuple[tuple[str, int], ...]:
    """Write sparse files.

    Args:
        folder: directory to create.
        number: number of files, which all belong to bucket 0.
        size: total size in bytes.
        hive: whether the file names follow the Hive layout.

    Returns: the name and the length of each file.
    """
    folder.mkdir()
    prefix = "00000_0_" if hive else ""
    found = tuple((prefix + _NAME.format(i), max(1, min(size, _MOST_BYTES) // number)) for i in range(number))
    for name, length in found:
        path = folder / name
        with path.open("wb") as file:
            file.truncate(length)
        os.utime(path, (_TIME, _TIME))
    return found


def seal_of(
    spec: BucketSpec, schema: Mapping[str, tuple[int, str]], files: tuple[tuple[str, int], ...]
) -> dict[str, str]:
    """Return the seal of these files as table properties (docs/reference/seal-format.md).

    Args:
        spec: bucket spec of the table.
        schema: for each column, by lowercase name, its index among the data columns and its type.
        files: the name and the length of each file.
    """
    columns, sorts = ([name.lower() for name in names] for names in (spec.bucket_columns, spec.sort_columns))
    described = [
        {"name": name, "position": schema[name][0], "type": schema[name][1]} for name in dict.fromkeys(columns + sorts)
    ]
    of_spec = {
        "bucketing.num_buckets": str(spec.num_buckets),
        "bucketing.columns": json.dumps(columns),
        "bucketing.sort_columns": json.dumps(sorts),
        "bucketing.hash": spec.bucket_hash,
        "bucketing.schema": json.dumps(described),
    }
    high = low = 0
    for text in ("\n".join(of_spec.values()), *(f"{name}\n{length}\n{_TIME * 1000}" for name, length in files)):
        digest = sha256(text.encode()).digest()
        high, low = high + int.from_bytes(digest[:8], "big"), low + int.from_bytes(digest[8:16], "big")
    return {
        "bucketing.spec_version": "2",
        **of_spec,
        "bucketing.files": str(len(files)),
        "bucketing.bytes": str(sum(length for _, length in files)),
        "bucketing.digest": f"{high % _WORD:016x}{low % _WORD:016x}",
    }
