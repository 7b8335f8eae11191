"""Spark's own objects for a table that is not there: its entry in the catalog and the relation that scans read.

Stock Spark makes of a bucketed table of Hive's a relation without buckets, whose entry in the catalog has them; so is
it made here, without a metastore of Hive's. Scala's defaults are out of reach of Py4J, so case classes are copied from
one that Spark made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_bucketing.plan.whatif.hypothetical_table import HypotheticalTable
from spark_bucketing.plan.whatif.placeholder_files import seal_of, write_files
from spark_bucketing.spec import BucketSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHATIF_SCHEMA = "spark_bucketing_whatif"
_SQL = "org.apache.spark.sql"


class Relations:
    """Makes relations in a session with a catalog in memory."""

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
        """Put a name into the catalog, whose relation is put into Spark's cache of them later."""
        entry, _ = self._prototype("parquet")
        self._external.createTable(self._copied(entry, identifier=self._identifier(schema, table)), True)

    def name(self, schema: str, table: str, relation: Any) -> None:
        """Let a name stand for a relation."""
        self._state.catalog().cacheTable(self._classes["QualifiedTableName"]("spark_catalog", schema, table), relation)

    def relation(self, table: HypotheticalTable) -> Any:
        """The relation of a table, with an entry of its own in the catalog, where rules of planning look it up."""
        prototype, files = self._prototype(table.format)
        hive = table.spec is not None and table.spec.bucket_hash == "hive"
        spec = self._option(self._spec(table.spec, table.columns) if table.spec else None)
        changes: dict[str, Any] = {"provider": self._option("hive")} if hive else {}
        if table.has_files:
            changes |= self._with_files(table, prototype)
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

    def _with_files(self, table: HypotheticalTable, prototype: Any) -> dict[str, Any]:
        """Fields of the entry of a table that has files: where they are, and their seal."""
        if table.spec is None:
            return {}
        folder = self._folder / table.content
        files = write_files(folder, table.files_per_bucket, table.size, table.spec.bucket_hash == "hive")
        fields = _iterated(self._schema(table.data_columns()).iterator())
        schema = {str(f.name()).lower(): (i, str(f.dataType().catalogString())) for i, f in enumerate(fields)}
        location = self._option(self._uri(folder.as_uri()))
        return {
            "storage": self._copied(prototype.storage(), locationUri=location),
            "properties": self._utils.toScalaMap(seal_of(table.spec, schema, files)),
        }

    @property
    def _external(self) -> Any:
        return self._state.catalog().externalCatalog()

    def _prototype(self, file_format: str) -> tuple[Any, Any]:
        """An entry of the catalog and a relation of this format, as Spark makes them."""
        if file_format not in self._prototypes:
            name = f"{WHATIF_SCHEMA}.like_{file_format}"
            # With a location, so that Spark makes no folder.
            self._session.sql(f"create table {name} (c string) using {file_format} location '{self._folder.as_uri()}'")
            relation = self._java.table(name).queryExecution().analyzed().collectLeaves().head()
            self._prototypes[file_format] = (relation.catalogTable().get(), relation.relation())
        return self._prototypes[file_format]

    def _identifier(self, schema: str, table: str) -> Any:
        return self._classes["TableIdentifier"](table, self._option(schema), self._option("spark_catalog"))

    def _schema(self, columns: Mapping[str, str]) -> Any:
        # The type of a bare NULL, which no table has.
        types = {name: "string" if kind.lower() == "void" else kind for name, kind in columns.items()}
        text = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in types.items())
        return self._state.sqlParser().parseTableSchema(text)

    def _spec(self, spec: BucketSpec, columns: Mapping[str, str]) -> Any:
        # As the table spells them, which is what Spark compares.
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
        """A case class's copy(), with some of its fields changed."""
        names = _iterated(instance.productElementNames())
        values = (changes[name] if name in changes else instance.productElement(i) for i, name in enumerate(names))
        return instance.copy(*values, *curried)


def _iterated(iterator: Any) -> list[Any]:
    found = []
    while iterator.hasNext():
        found.append(iterator.next())
    return found
