"""Tests of doctor's results for a server and for the local installation."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from spark_bucketing.doctor.server import PROBE, SETTINGS, Diagnosis, examine_installed, examine_server
from spark_bucketing.doctor.trino import SPECS, examine_tables
from spark_bucketing.errors import SparkError
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.tables.warehouse import NOT_LOADED, Warehouse

FACTORY = "spark.hadoop.mapreduce.outputcommitter.factory.scheme"
NAMED = {"spark.sql.extensions": f"other.Extension, {EXTENSION_CLASS}"}


def described(version: str = installed("spark-bucketing"), spark: str = "4.3.0") -> str:
    """Return Spark's description of an extension with this version, built for this Spark."""
    return f"Usage: bucket_specs - What it is. (spark-bucketing {version}, for Spark {spark})"


def examined(
    version: str = "4.3.0 abc",
    extension: str | None = None,
    catalog: str = "hive",
    settings: Mapping[str, str] = NAMED,
    place: str = "file:/warehouse",
    refusal: str = "[TABLE_OR_VIEW_NOT_FOUND] The table or view cannot be found.",
) -> dict[str, Diagnosis]:
    """Return the diagnoses for a server with these answers, by subject; no extension if `extension` is empty."""
    if extension is None:
        extension = described(spark=version.partition(" ")[0])
    answers: dict[str, list[dict[str, Any]]] = {
        "set": [{"key": key, "value": value} for key, value in settings.items()],
        "select version() as version": [{"version": version}],
        f"show user functions like 'bucket_specs|{NOT_LOADED}'": [{"function": "bucket_specs"}] if extension else [],
        "describe function bucket_specs": [{"function_desc": line} for line in ("Function: bucket_specs", extension)],
        "set spark.sql.warehouse.dir": [{"key": "", "value": place}],
        "set spark.sql.catalogImplementation": [{"key": "", "value": catalog}],
        "set spark.sql.hive.metastore.version": [{"key": "", "value": "2.3.10"}],
    }

    def rows(statement: str) -> list[dict[str, Any]]:
        if statement == PROBE:
            raise SparkError(refusal)
        return answers[statement]

    return {one.subject: one for one in examine_server(Warehouse(rows))}


def test_correctly_configured_server_has_no_findings() -> None:
    found = examined()
    assert {one.state for one in found.values()} == {"ok"} and not any(one.instead for one in found.values())
    assert found["metastore"].found == "Hive, client version 2.3.10"
    assert found["settings"].found == f"{len(SETTINGS)} of {len(SETTINGS)} are correct"


@pytest.mark.parametrize(
    ("version", "state", "said"),
    [
        ("3.4.1", "wrong", ""),
        ("3.5.4-amzn-0", "ok", "SQL scripts are not available"),
        ("4.0.5", "ok", "SQL scripts are not available"),
        ("4.1.3", "wrong", "SPARK-59141"),
        ("4.1.4", "ok", ""),
        ("4.2.0", "wrong", "SPARK-59141"),
        ("4.4.0", "unknown", ""),
    ],
)
def test_spark_version_is_diagnosed(version: str, state: str, said: str) -> None:
    found = examined(version=version)["Spark"]
    assert (found.state, found.found.partition(",")[0].partition(";")[0]) == (state, version) and said in found.found
    assert bool(found.instead) == (state != "ok")


@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        ("s3a://b/w", "spark.hadoop.fs.s3a.committer.name", "magic"),
        ("gs://b/w", f"{FACTORY}.gs", "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory"),
        ("abfss://c@a/w", f"{FACTORY}.abfss", "org.apache.hadoop.fs.azurebfs.commit.AzureManifestCommitterFactory"),
    ],
)  # fmt: skip
def test_committer_of_an_object_store_is_diagnosed(place: str, key: str, value: str) -> None:
    found = examined(place=place)[f"spark.sql.warehouse.dir={place}"]
    assert found.state == "wrong" and f"set {key}={value}, spark.sql.sources.commitProtocolClass=" in found.instead
    named = dict(pair.split("=") for pair in found.instead.partition(": set ")[2].split(", "))
    assert examined(place=place, settings={**NAMED, **named})["committer"].state == "ok"
    partly = examined(place=place, settings={**NAMED, key: value})[f"spark.sql.warehouse.dir={place}"]
    assert f"{key}=" not in partly.instead and "commitProtocolClass" in partly.instead


def test_scripts_can_be_enabled_and_disabled() -> None:
    scripts = "spark.sql.scripting.enabled"
    assert examined(version="4.0.5", settings={scripts: "true"})["Spark"].found == "4.0.5"
    assert "SQL scripts are not available" in examined(settings={scripts: "false"})["Spark"].found


def test_missing_extension_is_diagnosed() -> None:
    named, missing = (examined(extension="", settings=of)["session extension"] for of in (NAMED, {}))
    assert (named.state, missing.state) == ("wrong", "wrong")
    assert "the jar is missing" in named.found and "not loaded" in missing.found
    assert "extension conf" in named.instead and "extension conf" in missing.instead


@pytest.mark.parametrize(
    ("description", "state", "said"),
    [
        (described(), "ok", f"version {installed('spark-bucketing')}, built for Spark 4.3.0"),
        (described(spark="4.3.1-amzn-0"), "ok", "built for Spark 4.3.1-amzn-0"),
        (described("0.0.9"), "wrong", "version 0.0.9, built for Spark 4.3.0, but this command has version"),
        (described(spark="4.2.1"), "wrong", "built for Spark 4.2.1, but the session runs Spark 4.3.0"),
        ("Class: com.theirs.BucketSpecs", "wrong", "unknown version"),
    ],
)
def test_jar_for_another_release_or_another_spark_is_diagnosed(description: str, state: str, said: str) -> None:
    found = examined(extension=description)["session extension"]
    assert found.state == state and said in found.found
    assert ("extension build" in found.instead) == (state != "ok")


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_wrong_setting_is_named_with_the_correct_value(setting: Any) -> None:
    value = {"0": "1000", "true": "false", "false": "TRUE"}[setting.right]
    # With the extension, a limit of rows per file has no effect on buckets.
    extension = "" if setting.right == "0" else None
    found = examined(extension=extension, settings={setting.name: value})[f"{setting.name}={value}"]
    assert (
        found.state == "wrong" and f"{setting.name}={setting.right}" in found.instead and found.found == setting.effect
    )
    assert examined(settings={setting.name: setting.right.upper()})["settings"].found.startswith(f"{len(SETTINGS)} of")


def test_limit_of_rows_per_file_is_a_finding_only_where_it_splits_buckets() -> None:
    capped = {"spark.sql.files.maxRecordsPerFile": "9"}
    assert "spark.sql.files.maxRecordsPerFile=9" not in examined(settings=capped)
    for name in ("spark.bucketing.enabled", "spark.bucketing.write.distribute"):
        assert examined(settings={**capped, name: "false"})["spark.sql.files.maxRecordsPerFile=9"].state == "wrong"


def test_committer_that_renames_files_is_named() -> None:
    key = "spark.hadoop.fs.s3a.committer"
    for name in ("directory", "partitioned"):
        found = examined(settings={f"{key}.name": name})[f"{key}.name={name}"]
        assert found.state == "wrong" and f"set {key}.staging.unique-filenames=false" in found.instead
        named = {f"{key}.name": name, f"{key}.staging.unique-filenames": "false"}
        assert f"{key}.name={name}" not in examined(settings=named)
    assert f"{key}.name=magic" not in examined(settings={f"{key}.name": "magic"})


def test_setting_without_effect_on_buckets_is_not_a_finding() -> None:
    loose = examined(settings={"spark.sql.ansi.enabled": "false"})["spark.sql.ansi.enabled=false"]
    assert loose.state == "ok" and "silently" in loose.found


def test_other_engines_and_catalogs_are_diagnosed() -> None:
    plugins = {"spark.plugins": "org.apache.gluten.GlutenPlugin"}
    assert examined(settings=plugins)["spark.plugins=org.apache.gluten.GlutenPlugin"].state == "wrong"
    names = ["org.apache.spark.sql.bucketing.BucketingExtension", "org.apache.comet.CometSparkSessionExtensions"]
    for extensions, state in ((",".join(names), None), (",".join(reversed(names)), "wrong")):
        found = examined(settings={"spark.sql.extensions": extensions}).get(f"spark.sql.extensions={extensions}")
        assert (found.state if found else None) == state
    assert examined(catalog="in-memory")["metastore"].state == "wrong"


def test_metastore_of_hive_4_needs_another_client() -> None:
    found = examined(refusal="Unable to fetch table t. Invalid method name: 'get_table'")["metastore"]
    assert found.state == "wrong" and "Invalid method name: 'get_table'" in found.found
    assert "spark.sql.hive.metastore.version=4.0.1" in found.instead


# The installed package's dbt_project.yml, if any, and the expected diagnosis.
PACKAGES = {"version: 0.1.0": "ok", "version: 0.0.9": "wrong", "": "unknown", "name: [": "unknown"}


@pytest.mark.parametrize(("text", "state"), PACKAGES.items())
def test_dbt_package_and_plugin_must_have_the_same_version(tmp_path: Path, text: str, state: str) -> None:
    (tmp_path / "dbt_project.yml").write_text("name: theirs\n")
    package = tmp_path / "dbt_packages" / "spark_bucketing"
    if text:
        package.mkdir(parents=True)
        (package / "dbt_project.yml").write_text(f"{text}\n")
    found = {one.subject: one for one in examine_installed(tmp_path)}["dbt package"]
    assert found.state == state
    assert state != "wrong" or ("0.0.9" in found.found and "0.1.0" in found.found and "revision" in found.instead)


class Listed(NamedTuple):
    """A table as Spark describes it."""

    provider: str = "hive"
    key: str = "bigint"
    version: str | None = None
    buckets: int = 8
    # Rows of bucket_specs(): number of buckets and columns in the descriptor and in the seal, number of partitions, and
    # optionally the hash in the seal.
    specs: tuple[tuple[Any, ...], ...] | None = None
    partitioned: bool = True

    @property
    def information(self) -> str:
        buckets = f"Num Buckets: {self.buckets}" if self.buckets else "Comment: see\nNum Buckets: 8"
        return f"Type: MANAGED\nProvider: {self.provider}\n{buckets}\n"

    @property
    def description(self) -> list[dict[str, Any]]:
        properties = "[a=b" + (f", bucketing_version={self.version}" if self.version is not None else "") + "]"
        rows = {
            "K": self.key, "": "", "# Detailed Table Information": "", "Provider": self.provider,
            "Num Buckets": str(self.buckets), "Bucket Columns": "[`k`]", "Table Properties": properties,
        }  # fmt: skip
        if self.specs is not None and self.partitioned:
            rows = {"K": self.key, "# Partition Information": "", "ds": "string"} | rows
        return [{"col_name": name, "data_type": value} for name, value in rows.items()]


def listed_tables(extension: bool = True, /, **tables: Listed) -> list[Diagnosis]:
    """Return the diagnoses of a schema with these tables."""
    names = ("buckets", "columns", "sealed_buckets", "sealed_columns", "partitions", "hash")
    answers: dict[str, list[dict[str, Any]]] = {
        "show schemas like 'shop'": [{"namespace": "shop"}],
        "show table extended in `shop` like '*'": [
            {"tableName": name, "information": table.information} for name, table in tables.items()
        ],
        "show schemas like 'none'": [],
        "show user functions like 'bucket_specs'": [{"function": "bucket_specs"}] if extension else [],
        **{
            SPECS.format(f"'`shop`.`{name}`'"): [
                {"hash": None, **dict(zip(names, spec, strict=False)), "first": f"ds={number}"}
                for number, spec in enumerate(table.specs or ())
            ]
            for name, table in tables.items()
        },
        **{f"describe table extended `shop`.`{name}`": table.description for name, table in tables.items()},
    }
    assert not list(examine_tables(Warehouse(answers.__getitem__), "none"))
    return list(examine_tables(Warehouse(answers.__getitem__), "shop"))


def test_doctor_counts_the_tables_that_trino_reads_as_bucketed() -> None:
    assert listed_tables(plain=Listed(buckets=0)) == []
    keys = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "date", "varchar(9)")
    tables = {f"t{number}": Listed(key=key) for number, key in enumerate((*keys, "array<array<int>>"))}
    versions = {"v1": Listed(version="1"), "v2": Listed(version="2"), "plain": Listed(buckets=0)}
    (found,) = listed_tables(**tables, **versions)
    assert (found.state, found.found, found.instead) == ("ok", "reads 13 tables of shop as bucketed", "")


def test_doctor_names_tables_whose_buckets_trino_ignores() -> None:
    read, ignored = listed_tables(a=Listed(), **dict.fromkeys("zyxwv", Listed("parquet")))
    assert read.found == "reads 1 table of shop as bucketed"
    assert ignored.state == "ok" and "hive2" in ignored.instead
    assert ignored.found.startswith("ignores the buckets of v, w, x and 2 more, because tables in the Spark layout")


@pytest.mark.parametrize("version", ["1", "2", None])
@pytest.mark.parametrize("key", ["decimal(10,2)", "char(3)", "timestamp", "binary", "struct<a:int>", "array<char(3)>"])
def test_doctor_names_bucket_columns_that_trino_does_not_hash(key: str, version: str | None) -> None:
    read, ignored = listed_tables(a=Listed(key=key, version=version), b=Listed())
    assert (read.found, ignored.state) == ("reads 1 table of shop as bucketed", "ok")
    assert ignored.found == f"ignores the buckets of a, because it does not hash bucket columns such as k {key}"


@pytest.mark.parametrize("version", ["3", " 2 ", "02", ""])
def test_doctor_names_tables_with_a_version_that_trino_refuses(version: str) -> None:
    read, refused = listed_tables(a=Listed(version=version), b=Listed())
    assert (read.found, refused.state) == ("reads 1 table of shop as bucketed", "wrong")
    assert refused.found == f"cannot read a, because bucketing_version is '{version}' instead of '1' or '2'"
    assert "spark-bucketing table seal" in refused.instead


K, V = '["k"]', '["v"]'


@pytest.mark.parametrize("buckets", [1, 2, 4, 8, 16, 64])
def test_trino_reads_partitions_whose_buckets_differ_by_a_power_of_two(buckets: int) -> None:
    found, *others = listed_tables(
        a=Listed(specs=((8, K, 8, K, 3), (buckets, K, None, None, 1))), empty=Listed(specs=())
    )
    assert (found.state, found.found) == ("ok", "reads 2 tables of shop as bucketed")
    assert [(one.subject, one.state) for one in others] == ([("Hive", "ok")] if buckets != 8 else [])


def test_doctor_names_tables_whose_rows_hive_can_lose() -> None:
    _, _, found = listed_tables(a=Listed(specs=((8, K, 8, K, 3), (16, K, 16, K, 2), (None, None, 4, K, 1))))
    assert found.found == (
        "can lose rows of 2 partitions of a, such as ds=1, in sort-merge-bucket and bucket map joins: 16 buckets, but "
        "the table has 8"
    )
    assert "hive.disable.unsafe.external.table.operations=true" in found.instead


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ((None, None, None, None), "no buckets"),
        ((6, K, 6, K), "6 buckets by (k)"),
        ((24, K, None, None), "24 buckets by (k)"),
        ((8, V, 8, V), "8 buckets by (v)"),
        ((8, '["k","v"]', None, None), "8 buckets by (k, v)"),
        # ANALYZE removes the buckets from the descriptor.
        ((None, None, 8, K), "no buckets"),
        ((8, V, 4, K), "8 buckets by (v)"),
    ],
)
def test_doctor_names_tables_with_partitions_that_trino_does_not_read(spec: Any, said: str) -> None:
    read, mixed, *_ = listed_tables(a=Listed(specs=((8, K, 8, K, 3), (*spec, 2))), b=Listed())
    assert (read.found, mixed.state) == ("reads 1 table of shop as bucketed", "ok")
    assert mixed.found == (
        "fails with HIVE_PARTITION_SCHEMA_MISMATCH if a query reads 2 partitions of a, such as ds=1: "
        f"{said} in the metastore, but the table has 8 buckets by (k)"
    )
    command = "seal" if spec[3] == K and spec[2] in (4, 8) else "rewrite"
    assert mixed.instead.startswith(f"run `spark-bucketing table {command} shop.a`, ")


@pytest.mark.parametrize("sealed", [(8, K), (4, K), (8, V)])
def test_doctor_names_tables_without_partitions_whose_files_have_other_buckets(sealed: tuple[int, str]) -> None:
    read, *others = listed_tables(a=Listed(specs=((8, K, *sealed, 1, "hive"),), partitioned=False), b=Listed())
    assert read.found == f"reads {1 if others else 2} table{'' if others else 's'} of shop as bucketed"
    expected = "fails with HIVE_INVALID_BUCKET_FILES if a query reads a: the files have {} buckets by ({}), but the table has 8"
    assert [one.found.startswith(expected.format(sealed[0], sealed[1][2])) for one in others] == [True] * (
        sealed != (8, K)
    )
    assert all("`dbt run --full-refresh`" in one.instead for one in others)


@pytest.mark.parametrize(("stated", "other"), [("1", "2"), ("2", "1"), (None, "2")])
def test_doctor_names_tables_whose_seals_have_another_version(stated: str | None, other: str) -> None:
    hashes = {"1": "hive", "2": "hive2"}
    states = (8, K, 8, K, 3, hashes[stated or "1"])
    table = Listed(version=stated, specs=(states, (8, K, 8, K, 2, hashes[other]), (8, K, 4, K, 1, hashes[other])))
    read, found = listed_tables(a=table, b=Listed(version=stated, specs=(states,)))
    assert (read.found, found.state) == ("reads 1 table of shop as bucketed", "wrong")
    assert found.found == (
        "may look for rows of 3 partitions of a, such as ds=1, in the wrong buckets: sealed with bucketing_version "
        f"{other}, but the table states '{stated or 1}'"
    )
    assert found.instead.startswith("run `spark-bucketing table seal shop.a`, which compares the rows with both")


def test_doctor_has_one_finding_for_each_table() -> None:
    specs = ((8, K, 8, K, 3, "hive2"), (6, K, 6, K, 2), (None, None, 8, K, 1), (None, None, 4, K, 5))
    _, found, _ = listed_tables(a=Listed(specs=specs))
    assert found.found == (
        "fails with HIVE_PARTITION_SCHEMA_MISMATCH if a query reads 8 partitions of a, such as ds=1: 6 buckets by (k) "
        "in the metastore, but the table has 8 buckets by (k); may look for rows of 3 partitions of a, such as ds=0, in "
        "the wrong buckets: sealed with bucketing_version 2, but the table states '1'"
    )
    assert found.instead == (
        "run `spark-bucketing table seal shop.a`, which compares the rows with both versions and reports the fix, and "
        "writes the sealed buckets of a partition to the metastore; then run `spark-bucketing table rewrite shop.a`, "
        "which rewrites partitions with the table's buckets"
    )


def test_doctor_reads_partitions_only_of_tables_that_trino_reads_as_bucketed() -> None:
    unbucketed = ((None, None, None, None, 1),)
    tables = {"a": Listed(key="binary"), "b": Listed(version="3"), "c": Listed("parquet"), "d": Listed(buckets=0)}
    found = listed_tables(**{name: table._replace(specs=unbucketed) for name, table in tables.items()})
    assert not any("HIVE_PARTITION_SCHEMA_MISMATCH" in one.found for one in found)


def test_doctor_says_that_it_cannot_check_partitions_without_the_extension() -> None:
    (found,) = listed_tables(False, a=Listed(specs=((None, None, None, None, 1),)))
    assert (found.state, found.found) == (
        "ok", "reads 1 table of shop as bucketed; without the session extension, partitions and bucketing versions are not checked"
    )  # fmt: skip
