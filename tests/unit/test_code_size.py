"""Tests that code is short enough to read at once, that macros call few levels of others, and of Scala's packages."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from conftest import REPOSITORY
from spark_bucketing.extension import build

MOST_LINES_OF_A_FILE = 600
# Lines of code: Python without signatures and docstrings, and macros with the SQL that they return.
MOST_LINES_OF_A_FUNCTION = {".py": 50, ".sql": 100}
MACRO = re.compile(
    r"{%-?\s*(?:macro|test|materialization)\s+(\w+).*?{%-?\s*end(?:macro|test|materialization)", re.DOTALL
)

# The most macros between a materialization and a statement that changes something. `execute_sql` sends a statement, as `statement` of dbt does.
MOST_LEVELS = 3
CALL, COMMENT = re.compile(r"\bspark_bucketing\.(\w+)\("), re.compile("{#.*?#}", re.DOTALL)
STATEMENT = re.compile(r"{%-? call(?:\(\w+\))? statement\(|\bexecute_sql\(")


def sources(*patterns: str) -> Iterator[tuple[Path, str]]:
    """Yield the paths and texts of the repository's files."""
    listed = subprocess.run(
        ["git", "ls-files", *patterns], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout.split()
    yield from ((Path(name), (REPOSITORY / name).read_text()) for name in listed if (REPOSITORY / name).exists())


def functions(path: Path, text: str) -> Iterator[tuple[str, int]]:
    """Yield the names of a file's functions or macros, and their lines of code without signatures and docstrings."""
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                yield node.name, (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
    else:
        yield from ((found[1], found[0].count("\n") + 1) for found in MACRO.finditer(text))


def test_no_file_is_longer_than_600_lines() -> None:
    files = sources("python_plugin/src/*.py", "python_plugin/src/*.scala", "scripts/*.py", "macros/*.sql")
    assert {str(path): lines for path, text in files if (lines := text.count("\n")) > MOST_LINES_OF_A_FILE} == {}


def test_no_function_is_longer_than_50_lines_and_no_macro_longer_than_100() -> None:
    files = list(sources("python_plugin/src/*.py", "scripts/*.py", "macros/*.sql"))
    found = {(path, name): lines for path, text in files for name, lines in functions(path, text)}
    assert {path.suffix for path, _ in found} == set(MOST_LINES_OF_A_FUNCTION)
    long = {one: lines for one, lines in found.items() if lines > MOST_LINES_OF_A_FUNCTION[one[0].suffix]}
    assert long == {}


def longest_chain(macros: Mapping[str, str], name: str) -> list[str]:
    """Return the longest chain of calls from a macro to a macro that sends a statement; empty if there is none."""
    others = [longest_chain(macros, called) for called in set(CALL.findall(macros[name])) - {name, "execute_sql"}]
    longest = max((chain for chain in others if chain), key=len, default=[])
    return [name, *longest] if longest or STATEMENT.search(macros[name]) else []


def test_few_levels_of_macros_are_between_a_materialization_and_its_statements() -> None:
    texts = (COMMENT.sub("", text) for _, text in sources("macros/*.sql"))
    macros = {found[1]: found[0] for text in texts for found in MACRO.finditer(text)}
    chains = [longest_chain(macros, name) for name, text in macros.items() if "{% materialization " in text]
    assert len(chains) == 4 and all(len(chain) > 2 for chain in chains)
    assert [chain for chain in chains if len(chain) - 1 > MOST_LEVELS] == []


SOURCES = Path(build.__file__).parent / "scala"
# The empty name is the root package: settings and reasons. BucketingExtension registers everything; no package uses it.
ORDER = ["", "hash", "compat", "metadata", "read", "write", "ddl", "dml", "explain"]
ENTRY = "BucketingExtension.scala"
DEFINITION = re.compile(
    r"^(?:(?:private|sealed|abstract|final|case|implicit)(?:\[\w+\])? )*(?:object|class|trait) (\w+)", re.MULTILINE
)
SCALA_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


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
    paths = [path for path in SOURCES.rglob("*.scala") if path.name != ENTRY]
    files = {path.relative_to(SOURCES): SCALA_COMMENT.sub("", path.read_text()) for path in paths}
    assert {package(path) for path in files} == set(ORDER)
    assert violations(files) == []
    wrong = {Path("hash/A.scala"): "object A { B.go() }", Path("ddl/B.scala"): "object B { def go() = A }"}
    assert violations(wrong) == ["hash/A.scala uses B of ddl"]
