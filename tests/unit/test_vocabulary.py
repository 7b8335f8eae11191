"""Tests that the vocabulary check of `make lint` fails on retired words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
WORDS = REPOSITORY / "scripts" / "retired_words.txt"
RETIRED = dict(line.split("->") for line in WORDS.read_text().splitlines())


def check(path: Path) -> subprocess.CompletedProcess[str]:
    config = REPOSITORY / "python_plugin" / "pyproject.toml"
    command = [sys.executable, "-m", "codespell_lib", "--toml", str(config), "-D", str(WORDS), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_each_retired_word_is_found_with_its_replacement(tmp_path: Path) -> None:
    text = tmp_path / "text.md"
    text.write_text("\n".join(f"Use '{word}', and {word.capitalize()} too." for word in RETIRED))
    found = check(text)
    assert found.returncode != 0
    assert [word for word, new in RETIRED.items() if f"{word} ==> {new}".lower() not in found.stdout.lower()] == []


@pytest.mark.parametrize("word", sorted(RETIRED))
def test_replacement_of_a_retired_word_is_not_retired(word: str) -> None:
    assert not set(RETIRED[word].split()) & RETIRED.keys()
