"""Generate files from the sources: pages in docs/reference/, and the config schema and the descriptions for dbt."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from reference import commands, config, generic_tests, reasons, settings

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
MACROS = Path(__file__).parents[1] / "macros"
PAGES: dict[Path, Callable[[], str]] = {
    MACROS / "bucketing" / "config" / "config_schema.sql": config.macro,
    MACROS / "materializations" / "materializations.yml": config.properties,
    FOLDER / "commands.md": commands.page,
    FOLDER / "configuration.md": config.page,
    FOLDER / "reasons.md": reasons.page,
    FOLDER / "settings.md": settings.page,
    FOLDER / "tests.md": generic_tests.page,
}

if __name__ == "__main__":
    for path, page in PAGES.items():
        path.write_text(page())
