"""Tests of the script that checks the machine before the installation, with shell scripts in place of Java."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_machine.py"


def check(home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "JAVA_HOME": str(home), **environment}
    return subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True, check=False)


def java(home: Path, says: str) -> None:
    (home / "bin").mkdir()
    command = home / "bin" / "java"
    command.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\n")
    command.chmod(0o755)


WITH_OPTIONS = 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19 LTS'


@pytest.mark.parametrize("says", ['openjdk version "17.0.15" 2025-04-15', WITH_OPTIONS])
def test_supported_java_passes_silently(tmp_path: Path, says: str) -> None:
    java(tmp_path, says)
    result = check(tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("says", "found"),
    [
        ('java version "1.8.0_392"', "is version 8"),
        ('openjdk version "11.0.22" 2024-01-16', "is version 11"),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", "does not run"),
        (None, "does not run"),
    ],
)
def test_without_supported_java_the_message_says_how_to_install_it(
    tmp_path: Path, says: str | None, found: str
) -> None:
    if says:
        java(tmp_path, says)
    result = check(tmp_path)
    assert result.returncode == 1
    assert f"Java 17 or newer is required; {tmp_path}/bin/java {found}." in result.stderr
    assert all(tool in result.stderr for tool in ("apt-get install", "dnf install", "brew install"))


def test_java_is_also_found_on_the_path(tmp_path: Path) -> None:
    java(tmp_path, 'openjdk version "11.0.22"')
    environment = {"JAVA_HOME": "", "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    assert "is version 11" in check(tmp_path, **environment).stderr
