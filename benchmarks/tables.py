"""Generate the tables of TPC-H."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


class WrongRowsError(Exception):
    """Two variants of a query returned different rows."""


def generate(folder: Path, scale: float, names: Sequence[str] = ("orders", "lineitem")) -> None:
    """Write TPC-H tables as Parquet files, except tables whose files already exist.

    Args:
        folder: target folder, which may not exist yet, with one file per table.
        scale: TPC-H scale factor. At scale 1, lineitem has 6 million rows.
        names: names of the tables, including lineitem.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "lineitem.parquet").exists():
        command = [str(Path(sys.executable).parent / "tpchgen-cli"), "parquet", "--scale-factor", str(scale)]
        subprocess.run([*command, "--tables", ",".join(names), "--output-dir", str(folder)], check=True)
