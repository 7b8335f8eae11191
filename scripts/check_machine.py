"""Checks that this machine has the Python and the Java that Spark needs, and says how to get them.

Runs before anything is installed and on old Pythons too, so that their users get the message and not a traceback.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PYTHON = (3, 10)
JAVA = 17
INSTALL = """\
Install one:
  Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless
  Fedora:         sudo dnf install java-21-openjdk-headless
  macOS:          brew install openjdk@17, then export JAVA_HOME="$(brew --prefix openjdk@17)"
If you have one elsewhere, point JAVA_HOME to it."""


def java_command() -> str:
    """Java as Spark looks for it: below JAVA_HOME when that is set, else on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"


def java_version(command: str) -> "int | None":
    """Major version of a Java, or None when it does not run."""
    try:
        process = subprocess.run([command, "-version"], stderr=subprocess.PIPE, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', process.stderr.decode(errors="replace"))
    return int(match.group(1)) if match else None


def missing() -> "str | None":
    """What this machine lacks and how to get it, or None when everything is there."""
    if sys.version_info < PYTHON:
        wanted, found = ".".join(map(str, PYTHON)), sys.version.split()[0]
        return f"Python {wanted} or newer is needed; {sys.executable} is {found}. Name another: make PYTHON=python3.12"
    command = java_command()
    version = java_version(command)
    if version is not None and version >= JAVA:
        return None
    found = f"{command} is version {version}" if version else f"{command} does not run"
    return f"Java {JAVA} or newer is needed; {found}.\n{INSTALL}"


if __name__ == "__main__":
    sys.exit(missing())
