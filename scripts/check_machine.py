"""Check that this machine has suitable versions of Python and Java, and explain how to install them.

The script runs before anything else is installed. The script also runs on old Python versions, so that users see a
message instead of a traceback.
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
If Java is installed in another directory, set JAVA_HOME to that directory."""


def java_command() -> str:
    """Return the Java command that Spark would use: the one in JAVA_HOME if it is set, otherwise the one in PATH."""
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
    """Return a message that names the missing programs, and explains how to install them.

    Return None if nothing is missing.
    """
    if sys.version_info < PYTHON:
        wanted, found = ".".join(map(str, PYTHON)), sys.version.split()[0]
        return f"Python {wanted} or newer is required; {sys.executable} is {found}. Try: make PYTHON=python3.12"
    command = java_command()
    version = java_version(command)
    if version is not None and version >= JAVA:
        return None
    found = f"{command} is version {version}" if version else f"{command} does not run"
    return f"Java {JAVA} or newer is required; {found}.\n{INSTALL}"


if __name__ == "__main__":
    sys.exit(missing())
