"""Tests of partition access through Spark's catalog interface, and with a metastore client that has its own class loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark
import pytest
from bucketed_tables import Tables
from partition_specs import StoredSpec, create, filled, kept, logged, put_parameters, seal_of
from py4j.java_gateway import JavaObject
from pyspark.errors import AnalysisException
from spark_subprocess import CREATE, SparkSubprocess

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")


class Store:
    """A metadata store over the catalog interface of this session."""

    def __init__(self, tables: Tables, table: str) -> None:
        jvm: Any = tables.spark.sparkContext._jvm
        self.jvm = jvm
        self.bucketing = self.jvm.org.apache.spark.sql.bucketing.metadata
        session = tables.spark._jsparkSession
        self.java = self.bucketing.CatalogPartitions(session.sharedState().externalCatalog())
        name = session.sessionState().sqlParser().parseTableIdentifier(f"{tables.database}.{table}")
        self.table = session.sessionState().catalog().getTableMetadata(name)

    def list(self, **values: str) -> dict[str, JavaObject]:
        partitions = self.java.list(self.table, self.jvm.PythonUtils.toScalaMap(values))
        listed = [partitions.apply(place) for place in range(partitions.length())]
        return {str(partition.name()): partition for partition in listed}


def test_partitions_equal_the_partitions_from_hives_client(tables: Tables) -> None:
    rows = "select k, v, p, if(k % 3 = 0, null, concat('x/=', k % 3)) from new_rows"
    filled(tables, "t", rows, partition="p bigint, s string")
    store = Store(tables, "t")
    expected = {
        str(name): str(place).replace("file:///", "file:/")
        for name, place in tables.sql(f"select partition, location from bucket_specs('{tables.database}.t')")
    }
    assert len(expected) == 6
    found = store.list()
    assert {name: str(partition.location()) for name, partition in found.items()} == expected
    for partition in found.values():
        assert partition.described().isEmpty()
        assert partition.seal().get().value().spec().numBuckets() == 4
    assert set(store.list(p="1")) == {name for name in expected if name.startswith("p=1/")}


def test_seal_is_written_and_the_stale_descriptor_is_reported(tables: Tables) -> None:
    filled(tables, "t")
    before = seal_of(tables, "t", "p=0")
    store = Store(tables, "t")
    found = store.list()["p=0"]
    option, some = store.jvm.scala.Option, found.seal().get().value()
    described = option.apply(store.bucketing.BucketDescriptor.of(store.table.bucketSpec()))
    put_parameters(tables, "t", "p=0", dict.fromkeys(before))
    with logged(tables.spark, "org.apache.spark.sql.bucketing.metadata.CatalogPartitions") as lines:
        change = store.bucketing.PartitionChange(store.list()["p=0"], option.apply(some), described)
        store.java.change(store.table, store.jvm.PythonUtils.toSeq([change]), False)
    assert "descriptors of 1 partitions of" in lines[0] and "spark.sql.catalogImplementation" in lines[0]
    # Spark's catalog interface removes the buckets from a descriptor.
    assert kept(tables, "t") == {"p=0": StoredSpec(4, 0), "p=1": StoredSpec(4, 4)}
    assert seal_of(tables, "t", "p=0") == before


def test_table_spec_cannot_be_changed(tables: Tables) -> None:
    create(tables, "t")
    store = Store(tables, "t")
    change = store.bucketing.TableChange(store.table.bucketSpec(), store.jvm.PythonUtils.toScalaMap({}), False)
    message = r"(?s)a catalog other than.*spark.sql.catalogImplementation=hive"
    with pytest.raises(AnalysisException, match=message):
        store.java.alterTable(store.table, change)
    with pytest.raises(AnalysisException, match=message):
        store.java.check(store.table, False)


@pytest.mark.long
def test_session_with_another_client_evolves_seals_and_reads_buckets(tmp_path: Path) -> None:
    """Use a subprocess, because a process can have only one metastore client."""
    subprocess_spark = SparkSubprocess(tmp_path, "s")
    subprocess_spark.settings |= {
        "spark.sql.hive.metastore.jars": "path",
        "spark.sql.hive.metastore.jars.path": f"file://{Path(pyspark.__file__).parent}/jars/*.jar",
    }
    grouped = "select k, count(*) from s.t group by k"
    *_, specs, counted, plan = subprocess_spark.run(
        *CREATE,
        "insert into s.t select id, id, cast(id % 2 as int) from range(40)",
        "alter table s.t clustered by (k) sorted by (k) into 8 buckets",
        "insert overwrite s.t partition (p = 1) select id, -id from range(40)",
        "select partition, num_buckets, descriptor_num_buckets, status from bucket_specs('s.t')",
        f"select count(*) from ({grouped})",
        f"explain {grouped}",
    )
    assert specs == [["p=0", 4, 4, "sealed"], ["p=1", 8, 8, "sealed"]]
    assert counted == [[40]] and "Bucketed: true (4 Hive buckets" in str(plan)
