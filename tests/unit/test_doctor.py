"""What the doctor says of a server and of what is installed here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import pytest

from spark_bucketing.doctor.diagnosis import Diagnosis
from spark_bucketing.doctor.installed import examine_installed
from spark_bucketing.doctor.server import SETTINGS, examine_server
from spark_bucketing.evolution.warehouse import Warehouse
from spark_bucketing.extension.settings import EXTENSION_CLASS

NAMED = {"spark.sql.extensions": f"other.Extension, {EXTENSION_CLASS}"}


def described(version: str = installed("spark-bucketing"), spark: str = "4.3.0") -> str:
    """What Spark says of an extension of this version, built for this Spark."""
    return f"Usage: bucket_specs - What it is. (spark-bucketing {version}, for Spark {spark})"


def examined(
    version: str = "4.3.0 abc",
    extension: str | None = None,
    catalog: str = "hive",
    settings: Mapping[str, str] = NAMED,
) -> dict[str, Diagnosis]:
    """What is said of a server, by subject, whose answers are these; extension: its description, empty for none."""
    if extension is None:
        extension = described(spark=version.partition(" ")[0])
    answers: dict[str, list[dict[str, Any]]] = {
        "set": [{"key": key, "value": value} for key, value in settings.items()],
        "select version() as version": [{"version": version}],
        "show user functions like 'bucket_specs'": [{"function": "bucket_specs"}] if extension else [],
        "describe function bucket_specs": [{"function_desc": line} for line in ("Function: bucket_specs", extension)],
        "set spark.sql.catalogImplementation": [{"key": "", "value": catalog}],
        "set spark.sql.hive.metastore.version": [{"key": "", "value": "2.3.10"}],
    }
    return {one.subject: one for one in examine_server(Warehouse(answers.__getitem__))}


def test_a_server_as_it_should_be() -> None:
    found = examined()
    assert {one.state for one in found.values()} == {"ok"} and not any(one.instead for one in found.values())
    assert found["metastore"].found == "Hive's, by a client of version 2.3.10"
    assert found["settings"].found == f"{len(SETTINGS)} of {len(SETTINGS)} are as they should be"


@pytest.mark.parametrize(
    ("version", "state", "said"),
    [
        ("3.4.1", "wrong", ""),
        ("3.5.4-amzn-0", "ok", "no SQL scripts"),
        ("4.0.5", "ok", "no SQL scripts"),
        ("4.1.3", "wrong", "SPARK-59141"),
        ("4.1.4", "ok", ""),
        ("4.2.0", "wrong", "SPARK-59141"),
        ("4.4.0", "unknown", ""),
    ],
)
def test_versions_of_spark(version: str, state: str, said: str) -> None:
    found = examined(version=version)["Spark"]
    assert (found.state, found.found.partition(",")[0].partition(";")[0]) == (state, version) and said in found.found
    assert bool(found.instead) == (state != "ok")


def test_scripts_may_be_switched_on_and_off() -> None:
    scripts = "spark.sql.scripting.enabled"
    assert examined(version="4.0.5", settings={scripts: "true"})["Spark"].found == "4.0.5"
    assert "no SQL scripts" in examined(settings={scripts: "false"})["Spark"].found


def test_an_extension_that_is_not_there() -> None:
    named, missing = (examined(extension="", settings=of)["session extension"] for of in (NAMED, {}))
    assert (named.state, missing.state) == ("wrong", "wrong")
    assert "its jar is missing" in named.found and "not loaded" in missing.found
    assert "extension conf" in named.instead and "extension conf" in missing.instead


@pytest.mark.parametrize(
    ("description", "state", "said"),
    [
        (described(), "ok", f"version {installed('spark-bucketing')}, built for Spark 4.3.0"),
        (described(spark="4.3.1-amzn-0"), "ok", "built for Spark 4.3.1-amzn-0"),
        (described("0.0.9"), "wrong", "version 0.0.9, built for Spark 4.3.0, beside version"),
        (described(spark="4.2.1"), "wrong", "built for Spark 4.2.1, and loaded by Spark 4.3.0"),
        ("Class: com.theirs.BucketSpecs", "wrong", "does not say which version"),
    ],
)
def test_a_jar_of_another_release_or_for_another_spark(description: str, state: str, said: str) -> None:
    found = examined(extension=description)["session extension"]
    assert found.state == state and said in found.found
    assert ("extension build" in found.instead) == (state != "ok")


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_setting_that_is_wrong_is_named_with_the_right_value(setting: Any) -> None:
    value = {"0": "1000", "true": "false", "false": "TRUE"}[setting.right]
    found = examined(settings={setting.name: value})[f"{setting.name}={value}"]
    assert (
        found.state == "wrong" and f"{setting.name}={setting.right}" in found.instead and found.found == setting.effect
    )
    assert examined(settings={setting.name: setting.right.upper()})["settings"].found.startswith(f"{len(SETTINGS)} of")


def test_what_breaks_no_bucket_is_said_and_no_finding() -> None:
    loose = examined(settings={"spark.sql.ansi.enabled": "false"})["spark.sql.ansi.enabled=false"]
    assert loose.state == "ok" and "without an error" in loose.found


def test_other_engines_and_other_catalogs() -> None:
    plugins = {"spark.plugins": "org.apache.spark.CometPlugin"}
    assert examined(settings=plugins)["spark.plugins=org.apache.spark.CometPlugin"].state == "wrong"
    assert examined(catalog="in-memory")["metastore"].state == "wrong"


# What a project has installed as the package's dbt_project.yml, if it has, and what is said of that.
PACKAGES = {"version: 0.1.0": "ok", "version: 0.0.9": "wrong", "": "unknown", "name: [": "unknown"}


@pytest.mark.parametrize(("text", "state"), PACKAGES.items())
def test_the_dbt_package_and_the_plugin_are_of_one_version(tmp_path: Path, text: str, state: str) -> None:
    (tmp_path / "dbt_project.yml").write_text("name: theirs\n")
    package = tmp_path / "dbt_packages" / "spark_bucketing"
    if text:
        package.mkdir(parents=True)
        (package / "dbt_project.yml").write_text(f"{text}\n")
    found = {one.subject: one for one in examine_installed(tmp_path)}["dbt package"]
    assert found.state == state
    assert state != "wrong" or ("0.0.9" in found.found and "0.1.0" in found.found and "revision" in found.instead)
