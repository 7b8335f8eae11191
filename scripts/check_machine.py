"""Check that this machine has the Python and Java versions that Spark needs, and say how to install missing ones.

Runs before anything is installed, also on old Python versions, so that users see a message and not a traceback.
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
    """Return the Java command as Spark finds it: from JAVA_HOME if it is set, otherwise from the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"


def java_version(command: str) -> "int | None":
    """Return the major version of a Java command, or None if it does not run."""
    try:
        process = subprocess.run([command, "-version"], stderr=subprocess.PIPE, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', process.stderr.decode(errors="replace"))
    return int(match.group(1)) if match else None


def missing() -> "str | None":
    """Return what this machine lacks and how to install it, or None if nothing is missing."""
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
