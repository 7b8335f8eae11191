"""Tests of the extension's jar and settings without a JVM; a script replaces the compiler and records arguments."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from click.testing import CliRunner, Result

from spark_bucketing.cli import main
from spark_bucketing.extension import build as builder
from spark_bucketing.extension.build import find_spark
from spark_bucketing.extension.settings import EXTENSION_CLASS, FORMATS, extension_settings

# Like the compiler, this script writes the file after -d. It writes an empty archive, and records its arguments.
COMPILER = """#!/bin/sh
echo "$@" >> "{log}"
while [ "$1" != -d ]; do shift; done
printf 'PK\\005\\006\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0' > "$2"
"""
BROKEN = """#!/bin/sh
echo 'A.scala:1: error: not found: value x' >&2
exit 1
"""


class Machine:
    """A fake Spark, a fake Java and a cache in one directory."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.cache = folder, folder / "log", folder / "cache"
        self.java = folder / "java" / "bin" / "java"
        self.jars = folder / "spark" / "jars"
        self.jars.mkdir(parents=True)
        self.java.parent.mkdir(parents=True)
        self.spark("4.3.0")
        (self.jars / "scala-compiler-2.13.18.jar").touch()
        self.compiler(COMPILER.format(log=self.log))

    def spark(self, version: str) -> None:
        for jar in self.jars.glob("spark-core_*"):
            jar.unlink()
        (self.jars / f"spark-core_2.13-{version}.jar").touch()

    def compiler(self, script: str) -> None:
        self.java.write_text(script)
        self.java.chmod(self.java.stat().st_mode | stat.S_IXUSR)

    def compilations(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv(builder.CACHE_VARIABLE, str(machine.cache))
    return machine


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["extension", *arguments])


def message(*options: str) -> str:
    """Return the error message of a failing build."""
    result = run("build", *options)
    assert result.exit_code == 2 and "Traceback" not in result.output
    return result.output


def test_jar_is_built_once_and_only_its_path_is_printed(machine: Machine) -> None:
    first, second = run("build"), run("build")
    assert first.exit_code == 0, first.output
    assert first.output == second.output
    jar = Path(first.output.strip())
    assert jar.is_absolute() and zipfile.is_zipfile(jar)
    assert "spark-4.3.0-" in jar.name and jar.parent == machine.cache
    assert len(machine.compilations()) == 1
    assert all(f"{source}" in machine.compilations()[0] for source in builder.SOURCES.glob("*.scala"))
    assert list(machine.cache.iterdir()) == [jar], "the build left another file behind"
    jar.write_bytes(b"")
    assert run("build").output == first.output and zipfile.is_zipfile(jar), "the build kept a truncated jar"


def test_precompiled_jar_needs_no_compiler_and_no_cache(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = machine.folder / "jars"
    monkeypatch.setattr(builder, "PRECOMPILED", folder)
    assert Path(run("build").output.strip()).parent == machine.cache, "the package must not contain a jar"
    packaged = run("build", "--cache-dir", str(folder)).output
    assert len(machine.compilations()) == 2
    (machine.jars / "scala-compiler-2.13.18.jar").unlink()
    machine.java.unlink()
    assert run("build").output == packaged
    machine.spark("4.3.1")
    assert "contains no Scala compiler" in message(), "a jar fits exactly one build of Spark"


def test_another_spark_or_other_sources_need_another_jar(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    built = [run("build").output]
    machine.spark("4.3.1-vendor-2")
    built.append(run("build").output)
    assert "spark-4.3.1-vendor-2-" in built[1]
    sources = machine.folder / "scala"
    sources.mkdir()
    monkeypatch.setattr(builder, "SOURCES", sources)
    for name, text in (("A.scala", "object A"), ("A.scala", "object B"), ("B.scala", "object B")):
        (sources / "A.scala").unlink(missing_ok=True)
        (sources / name).write_text(text)
        built.append(run("build").output)
    # This is another build of Spark with the same version number.
    next(machine.jars.glob("spark-core_*")).write_text("their own")
    built.append(run("build").output)
    assert len(set(built)) == 6


# The folders of compat/ with the newest compatible SparkVersion, StockScan, ForwardingParser and Assignments
@pytest.mark.parametrize(
    ("version", "folders"),
    [
        ("3.5.9", "3.5 3.5 3.5 3.5"), ("3.5.4-amzn-0", "3.5 3.5 3.5 3.5"), ("4.0.5", "4.0 4.0 4.0 3.5"),
        ("4.1.4", "4.0 4.0 4.1 4.1"), ("4.2.1", "4.0 4.0 4.1 4.1"), ("4.3.0", "4.0 4.3 4.3 4.1"),
    ],
)  # fmt: skip
def test_newest_compatible_source_of_each_name_is_compiled(machine: Machine, version: str, folders: str) -> None:
    machine.spark(version)
    sources = builder.sources_for(find_spark())
    assert len({source.name for source in sources}) == len(sources)
    found = {source.stem: source.parent.name for source in sources if source.parent.parent.name == "compat"}
    names = ("SparkVersion", "StockScan", "ForwardingParser", "Assignments")
    expected = dict(zip(names, folders.split(), strict=True))
    assert found == {**expected, "ScanFiles": expected["SparkVersion"]}


@pytest.mark.parametrize("version", ["3.4.4", "4.4.0", "5.0.0"])
def test_unsupported_spark_is_an_error_with_the_supported_versions(machine: Machine, version: str) -> None:
    machine.spark(version)
    said = message()
    assert f"does not support Spark {version}" in said and "3.5, 4.0, 4.1, 4.2, 4.3" in said


def test_concurrent_builds_succeed_and_a_killed_build_leaves_no_jar(machine: Machine) -> None:
    machine.compiler(COMPILER.format(log=machine.log) + "exit 3\n")
    assert run("build").exit_code == 2 and list(machine.cache.iterdir()) == []
    machine.compiler(COMPILER.format(log=machine.log) + "sleep 0.2\n")
    with ThreadPoolExecutor(8) as pool:
        jars = set(pool.map(lambda _: builder.build_jar(), range(8)))
    assert len(machine.compilations()) > 2, "the builds did not run at the same time"
    assert [zipfile.is_zipfile(jar) for jar in jars] == [True]
    assert len(list(machine.cache.iterdir())) == 1


def test_cache_directory_comes_from_an_option_a_variable_or_the_user_s_home(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folder(*options: str) -> str:
        return str(Path(run("build", *options).output).parent.relative_to(tmp_path))

    assert (folder("--cache-dir", str(tmp_path / "option")), folder()) == ("option", "cache")
    monkeypatch.delenv(builder.CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert folder() == "xdg/spark-bucketing"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert folder() == "home/.cache/spark-bucketing"
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("Could not determine home directory.")))
    assert f"set `{builder.CACHE_VARIABLE}` to a directory" in message()


def test_copied_jar_has_a_stable_name(machine: Machine, tmp_path: Path) -> None:
    copy = tmp_path / "new" / "extension.jar"
    assert run("build", "--output", str(copy)).output.strip() == str(copy)
    before = copy.stat().st_ino
    run("build", "-o", str(copy))
    assert zipfile.is_zipfile(copy)
    assert copy.stat().st_ino != before, "a running Spark would read a changing file"
    assert list(copy.parent.iterdir()) == [copy]
    assert f"spark.jars={copy}" in run("conf", "-o", str(copy)).output


def test_build_error_is_a_message_with_exit_code_2(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    below = str(machine.java / "below")
    assert f"instead:  set `{builder.CACHE_VARIABLE}` to another directory" in message("--cache-dir", below)
    assert "The jar cannot be copied" in message("--output", below)
    shutil.rmtree(machine.cache)
    machine.compiler(BROKEN)
    assert "does not compile against Spark 4.3.0" in message()
    assert "error: not found: value x" in message()
    machine.java.write_text("not a program for this machine")
    assert "Java cannot be run." in message()
    machine.java.unlink()
    assert f"JAVA_HOME is {machine.folder / 'java'}, which does not contain bin/java" in message()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(machine.folder))
    assert "JAVA_HOME is not set, and PATH does not contain java" in message()
    (machine.jars / "scala-compiler-2.13.18.jar").unlink()
    assert "contains no Scala compiler" in message()
    monkeypatch.setenv("SPARK_HOME", str(machine.folder / "nothing"))
    assert "SPARK_HOME does not contain Spark" in message()


@pytest.mark.parametrize("form", FORMATS)
def test_settings_are_printed_in_three_formats(machine: Machine, form: str) -> None:
    jar = run("build").output.strip()
    expected = {"spark.jars": jar, "spark.sql.extensions": EXTENSION_CLASS}
    text = run("conf", "--format", form).output
    assert (run("conf").output == text) is (form == "properties"), "the default"
    if form == "profiles":
        assert yaml.safe_load(text) == {"server_side_parameters": expected}
        return
    words = [word for word in shlex.split(text) if word != "--conf"]
    assert dict(word.split("=", 1) for word in words) == expected | {"spark.driver.extraClassPath": jar}
    assert len(text.splitlines()) == (1 if form == "conf" else 3)


@pytest.mark.parametrize("name", ["a jar", "it's", 'say "x"', "a#b", "a: b", "$HOME"])
def test_every_format_preserves_any_path(name: str) -> None:
    settings = extension_settings(Path(f"/folder/{name}/x.jar"))
    assert yaml.safe_load(FORMATS["profiles"](settings))["server_side_parameters"] == settings
    assert [f"{key}={value}" for key, value in settings.items()] == shlex.split(FORMATS["conf"](settings))[1::2]


def test_pyspark_is_found_without_spark_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    found = find_spark()
    assert (found.jars / f"spark-core_2.13-{found.version}.jar").exists()
    assert os.sep + "pyspark" in str(found.jars)
