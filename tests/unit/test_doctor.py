"""Tests of doctor's results for a server and for the local installation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from conftest import REPOSITORY
from spark_bucketing.doctor.server import PROBE, Diagnosis, examine_installed, examine_server
from spark_bucketing.doctor.trino import SPECS, examine_tables
from spark_bucketing.errors import SparkError
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.tables.warehouse import NOT_LOADED, SETTINGS, Warehouse

FACTORY = "spark.hadoop.mapreduce.outputcommitter.factory.scheme"
CASES = REPOSITORY / "tests" / "cases" / "doctor"
SERVERS, TABLES = (yaml.safe_load((CASES / f"{name}.yml").read_text()) for name in ("server", "trino"))
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
    assert {(one.state, one.instead) for one in found.values()} == {("ok", "")}
    assert found["settings"].found == f"{len(SETTINGS)} of {len(SETTINGS)} are correct"


@pytest.mark.parametrize("case", SERVERS, ids=lambda case: case["subject"])
def test_server_is_diagnosed(case: dict[str, Any]) -> None:
    expected = {"state": "ok", "found": "", "instead": "", **case}
    answers = {key: value for key, value in case.items() if key not in ("subject", "state", "found", "instead")}
    if "jar" in answers:
        answers["extension"] = described(**answers.pop("jar"))
    found = examined(**answers).get(case["subject"])
    assert (found.state if found else "absent") == expected["state"]
    for key in ("found", "instead") if found else ():
        assert re.search(expected[key], getattr(found, key))
    assert not found or bool(found.instead) == (found.state != "ok")


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


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_wrong_setting_is_named_with_the_correct_value(setting: Any) -> None:
    value = {"0": "1000", "true": "false", "false": "TRUE"}[setting.right]
    # With the extension, a limit of rows per file has no effect on buckets.
    extension = "" if setting.right == "0" else None
    found = examined(extension=extension, settings={setting.name: value})[f"{setting.name}={value}"]
    assert (found.state, found.found) == ("wrong", setting.effect)
    assert f"{setting.name}={setting.right}" in found.instead
    assert examined(settings={setting.name: setting.right.upper()})["settings"].found.startswith(f"{len(SETTINGS)} of")


@pytest.mark.parametrize(
    ("text", "state"), [("version: 0.1.0", "ok"), ("version: 0.0.9", "wrong"), ("", "unknown"), ("name: [", "unknown")]
)
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

    @property
    def rows(self) -> list[dict[str, Any]]:
        names = ("buckets", "columns", "sealed_buckets", "sealed_columns", "partitions", "hash")
        rows = [dict(zip(names, spec, strict=False)) for spec in self.specs or ()]
        for number, row in enumerate(rows):
            columns = {
                name: json.dumps(row[name].split(",")) for name in ("columns", "sealed_columns") if row.get(name)
            }
            row |= {"hash": row.get("hash"), "first": f"ds={number}", **columns}
        return rows


def listed_tables(extension: bool, tables: Mapping[str, Listed]) -> list[Diagnosis]:
    """Return the diagnoses of a schema with these tables."""
    listed = [{"tableName": name, "information": table.information} for name, table in tables.items()]
    answers: dict[str, list[dict[str, Any]]] = {
        "show schemas like 'shop'": [{"namespace": "shop"}],
        "show table extended in `shop` like '*'": listed,
        "show schemas like 'none'": [],
        "show user functions like 'bucket_specs'": [{"function": "bucket_specs"}] if extension else [],
    }
    for name, table in tables.items():
        answers[SPECS.format(f"'`shop`.`{name}`'")] = table.rows
        answers[f"describe table extended `shop`.`{name}`"] = table.description
    assert not list(examine_tables(Warehouse(answers.__getitem__), "none"))
    return list(examine_tables(Warehouse(answers.__getitem__), "shop"))


@pytest.mark.parametrize("case", TABLES, ids=lambda case: case["name"])
def test_tables_are_diagnosed_for_other_engines(case: dict[str, Any]) -> None:
    found = listed_tables(case.get("extension", True), {name: Listed(**of) for name, of in case["tables"].items()})
    defaults = {"subject": "Trino", "state": "ok", "instead": ""}
    for one, expected in zip(found, [defaults | of for of in case["diagnoses"]], strict=True):
        assert (one.subject, one.state) == (expected["subject"], expected["state"])
        assert expected["found"] in one.found and expected["instead"] in one.instead
