"""Tests of the order of the Scala packages: a package uses only earlier packages."""

import re
from pathlib import Path

from spark_bucketing.extension import build

SOURCES = Path(build.__file__).parent / "scala"
# The empty name is the root package: settings and reasons. BucketingExtension registers everything; no package uses it.
ORDER = ["", "hash", "compat", "metadata", "read", "write", "ddl", "dml", "explain"]
ENTRY = "BucketingExtension.scala"
DEFINITION = re.compile(
    r"^(?:(?:private|sealed|abstract|final|case|implicit)(?:\[\w+\])? )*(?:object|class|trait) (\w+)", re.MULTILINE
)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def sources() -> dict[Path, str]:
    """Return the code of each Scala file, without comments."""
    return {
        path.relative_to(SOURCES): COMMENT.sub("", path.read_text())
        for path in SOURCES.rglob("*.scala")
        if path.name != ENTRY
    }


def package(path: Path) -> str:
    return path.parts[0] if len(path.parts) > 1 else ""


def violations(files: dict[Path, str]) -> list[str]:
    """Return the uses of definitions in later packages.

    Nested packages see each other's members without an import, so this function compares names of definitions, not
    imports.
    """
    homes = {name: package(path) for path, code in files.items() for name in DEFINITION.findall(code)}
    return sorted(
        f"{path} uses {name} of {homes[name] or 'the root package'}"
        for path, code in files.items()
        for name in set(re.findall(r"\w+", code)) & homes.keys()
        if ORDER.index(homes[name]) > ORDER.index(package(path))
    )


def test_packages_depend_one_way() -> None:
    files = sources()
    assert {package(path) for path in files} == set(ORDER)
    assert violations(files) == []


def test_use_of_a_later_package_is_found() -> None:
    files = {Path("hash/A.scala"): "object A { B.go() }", Path("ddl/B.scala"): "object B { def go() = A }"}
    assert violations(files) == ["hash/A.scala uses B of ddl"]
