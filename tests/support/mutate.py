"""Break random lines of the Python code and of the macros, one at a time, and report the changes that no test notices.

The tests run on a copy of the repository. The seed chooses the lines, so a run can be repeated.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from copy import copy
from difflib import unified_diff
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import grimp

REPOSITORY = Path(__file__).parents[2]
SOURCES = {"python": "python_plugin/src/*.py", "macros": "macros/*.sql"}
PYTEST = [
    sys.executable, "-m", "pytest", "--config-file", "python_plugin/pyproject.toml", "--rootdir", ".", "-qx", "-m", "not long",
]  # fmt: skip
# A timeout counts as a noticed change.
SECONDS = 1800
OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In,  # codespell:ignore notin
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
# Changes to a line of a macro: pattern and replacement.
IN_MACROS = [
    ("==", "!="), ("!=", "=="), (" < ", " >= "), (" > ", " <= "), (r"\bnot in\b", "in"), (r"\band\b", "or"),
    (r"\bor\b", "and"), (r"\bis not\b", "is"), (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"\b(\d+)\b", r"1\1"),
    (r"(?<=if )(.+?)(?= -?%})", r"not (\1)"), (r"{%-? do .+? -?%}", ""), (r"{{ return\(.+\) }}", "{{ return(none) }}"),
]  # fmt: skip


class Mutant(NamedTuple):
    """A changed file: its path, the number of the changed line, and the new text."""

    path: str
    line: int
    text: str


def mutants(path: str, text: str) -> Iterator[Mutant]:
    """Yield the possible changes to conditions, operators, constants and statements in a file."""
    return _of_python(path, text) if path.endswith(".py") else _of_macros(path, text)


def _of_macros(path: str, text: str) -> Iterator[Mutant]:
    commented = re.sub(r"{#.*?#}", lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.DOTALL)
    lines = text.split("\n")
    for number, code in enumerate(commented.split("\n")):
        for pattern, replacement in IN_MACROS:
            changed = re.sub(pattern, replacement, code, count=1)
            if changed != code:
                yield Mutant(path, number + 1, "\n".join([*lines[:number], changed, *lines[number + 1 :]]))


def _of_python(path: str, text: str) -> Iterator[Mutant]:
    source, starts = text.encode(), [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in _code(ast.parse(text)):
        for old, new in _changes(node):
            begin = starts[old.lineno - 1] + old.col_offset
            end = starts[(old.end_lineno or 0) - 1] + (old.end_col_offset or 0)
            code = new if isinstance(old, ast.stmt) else f"({new})"
            yield Mutant(path, old.lineno, (source[:begin] + code.encode() + source[end:]).decode())


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Walk the executed nodes, without annotations, and without nodes in f-strings, which have no exact position."""
    yield node
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            is_code = isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr)
            if is_code and name not in ("annotation", "returns"):
                yield from _code(child)


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield a part of a node and the code that replaces it."""
    match node:
        case ast.Compare(ops=[operator]) | ast.BoolOp(op=operator) | ast.BinOp(op=operator) if (
            type(operator) in OPPOSITES
        ):
            changed, opposite = copy(node), OPPOSITES[type(operator)]()
            setattr(changed, *(("ops", [opposite]) if isinstance(node, ast.Compare) else ("op", opposite)))
            yield node, ast.unparse(changed)
        case ast.UnaryOp(op=ast.Not()):
            yield node, ast.unparse(node.operand)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if "TYPE_CHECKING" not in ast.unparse(
            test
        ):
            yield test, f"not ({ast.unparse(test)})"
        case ast.Constant(value=bool(value)):
            yield node, repr(not value)
        case ast.Constant(value=int(value)):
            yield node, repr(value + 1)
        case ast.Return(value=ast.expr()):
            yield node, "return None"
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.AugAssign() | ast.Continue() | ast.Break():
            yield node, "pass"


def chosen(folder: Path, kinds: Sequence[str], number: int, seed: int) -> list[Mutant]:
    """Choose one change for each of several random lines."""
    listing = ["git", "ls-files", *(SOURCES[kind] for kind in kinds)]
    listed = subprocess.run(listing, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for path in listed.stdout.split():
        for mutant in mutants(path, (folder / path).read_text()):
            by_line.setdefault((mutant.path, mutant.line), []).append(mutant)
    chance = random.Random(seed)
    return [chance.choice(by_line[line]) for line in chance.sample(sorted(by_line), number)]


def copied(folder: Path) -> None:
    """Copy the files of the repository, and commit them, because some tests list them with git."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, folder / name, follow_symlinks=False)
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


def noticed(folder: Path, tests: Sequence[str]) -> str:
    """Run tests on the copy; return the first failure, or an empty string if all pass."""
    environment = os.environ | {"PYTHONPATH": str(folder / "python_plugin" / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*PYTEST, *tests], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return "the tests did not end"
    failures = re.findall(r"^(?:FAILED|ERROR) .*", done.stdout, re.MULTILINE)
    return "" if done.returncode == 0 else failures[0] if failures else done.stdout[-2000:] + done.stderr[-2000:]


def relevant(folder: Path, tests: Sequence[str], mutant: Mutant) -> list[str]:
    """Return the test files that can notice a change, starting with files that import the changed module directly.

    Tests of a module import it directly or indirectly. Tests of macros run dbt or call macros.
    """
    found = ([folder / test] if test.endswith(".py") else (folder / test).rglob("test_*.py") for test in tests)
    texts = {str(path.relative_to(folder)): path.read_text() for path in sorted(chain.from_iterable(found))}
    if mutant.path.endswith(".sql"):
        return [name for name, text in texts.items() if re.search(r"\bmacros\b|\bdbt\b", text)]
    module = ".".join(Path(mutant.path).with_suffix("").parts[2:]).removesuffix(".__init__")
    importers = {module, *grimp.build_graph("spark_bucketing").find_downstream_modules(module)}
    named = {name: imported(text) & importers for name, text in texts.items()}
    return sorted((name for name, found in named.items() if found), key=lambda name: module not in named[name])


def imported(text: str) -> set[str]:
    """Return the modules of this package that a test file imports, directly or through helpers in tests/support."""
    names = set()
    for found in re.finditer(r"^\s*(?:from|import) (\w[\w.]*)(?: import (.+))?", text, re.MULTILINE):
        helper = REPOSITORY / "tests" / "support" / f"{found[1]}.py"
        if helper.exists():
            names |= imported(helper.read_text())
        names |= {found[1], *(f"{found[1]}.{name.strip()}" for name in (found[2] or "").split(","))}
    return names


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--mutants", type=int, default=30)
    parser.add_argument("--of", choices=SOURCES, action="append", help="Change only these sources.")
    parser.add_argument("tests", nargs="*", default=["tests/unit"])
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copied(folder)
        if failure := noticed(folder, options.tests):
            sys.exit(f"The tests fail without a change: {failure}")
        survivors = 0
        for mutant in chosen(folder, options.of or list(SOURCES), options.mutants, options.seed):
            original = (folder / mutant.path).read_text()
            (folder / mutant.path).write_text(mutant.text)
            tests = relevant(folder, options.tests, mutant)
            failure = noticed(folder, tests) if tests else ""
            (folder / mutant.path).write_text(original)
            survivors += not failure
            print(f"{'noticed ' if failure else 'SURVIVED'} {mutant.path}:{mutant.line} {failure[:150]}", flush=True)
            if not failure:
                lines = unified_diff(original.splitlines(True), mutant.text.splitlines(True), n=0)
                print("".join(line for line in lines if line[:2] not in ("--", "++", "@@")))
    print(f"{survivors} of {options.mutants} changes survived (seed {options.seed}).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
