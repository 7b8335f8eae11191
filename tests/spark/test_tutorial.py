"""Runs the tutorial: creates its files, applies its edits, runs its commands, and compares their output."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial" / "index.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What differs between runs: times, sizes, ids, paths, and the order in which threads finish.
VARIABLE = re.compile(
    r"\d+\.\d+s?(?: [KM]iB)?|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+ (?=of \d+ )|[.…─]{3,}|\S+\.jar"
)
# Colors, and the time at which dbt prints a line.
PREFIX = re.compile(r"\x1b\[[\d;]*m|^(?:\x1b\[[\d;]*m)*\d\d:\d\d:\d\d  ", re.MULTILINE)


class Block(NamedTuple):
    """A block of code, and the text between it and the previous block."""

    text: str
    language: str
    code: str


def blocks() -> Iterator[Block]:
    page, end = TUTORIAL.read_text(), 0
    for found in FENCE.finditer(page):
        yield Block(page[end : found.start()], found[1], found[2])
        end = found.end()
    yield Block(page[end:], "", "")


def fixed(line: str) -> str:
    """Return a line without the parts that differ between runs, and with single spaces."""
    return re.sub(r"[ +#]+", " ", VARIABLE.sub("#", line)).strip()


def run(commands: str, folder: Path, answer: str) -> str:
    """Run commands, and return their output. They read the answer from a terminal."""
    keyboard, terminal = pty.openpty()
    os.write(keyboard, answer.encode())
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {
        "PATH": paths,
        "COLUMNS": "200",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "DBT_USE_COLORS": "false",
        "NO_COLOR": "1",
    }
    try:
        done = subprocess.run(
            ["bash", "-c", commands], cwd=folder, env=environment, stdin=terminal, capture_output=True, text=True, check=False
        )  # fmt: skip
    finally:
        os.close(keyboard)
        os.close(terminal)
    return PREFIX.sub("", done.stdout + done.stderr)


class Reader:
    """Follows the tutorial in a directory."""

    def __init__(self, home: Path) -> None:
        self.folder = home
        self.output = ""

    def follow(self, block: Block) -> None:
        self.edit(block.text)
        files = re.findall(r"`([\w/]+\.(?:sql|yml))`", block.text)
        if block.language == "sh":
            commands = block.code if "pip install" not in block.code else block.code.splitlines()[-1]
            self.output = run(commands, self.folder, "y\n")
            if "cd " in block.code:
                self.folder /= block.code.rpartition("cd ")[2].strip()
        elif block.language in ("yaml", "sql"):
            assert files, block
            for name in files if "at the top of" in block.text else files[-1:]:
                file = self.folder / name
                before = file.read_text() if "at the top of" in block.text else ""
                file.write_text(block.code + before)
        elif block.code and not block.code.startswith("SortMergeJoin"):
            found = {fixed(line) for line in self.output.splitlines()}
            missing = [line for line in block.code.splitlines() if fixed(line) not in found]
            assert not missing, f"not printed: {missing}\n\n{self.output}"

    def edit(self, text: str) -> None:
        """Apply a change that the text describes, and run the command that it names."""
        for name, old, new in re.findall(r"In `([\w/.]+)`, change `(.*?)` to `(.*?)`", text):
            file = self.folder / name
            assert old in file.read_text()
            file.write_text(file.read_text().replace(old, new))
        if "Change the number back to 8" in text:
            users = self.folder / "models" / "users.sql"
            users.write_text(users.read_text().replace("buckets=6", "buckets=8"))
            assert "No findings" in run("spark-bucketing check --offline", self.folder, "")


@pytest.mark.long
def test_tutorial_prints_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "spark-bucketing").symlink_to(ROOT)
    reader = Reader(tmp_path)
    for block in blocks():
        reader.follow(block)
