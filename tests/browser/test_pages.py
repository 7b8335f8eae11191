"""Tests of the HTML pages in Chromium: narrow, dark and printed. `make test-browser` runs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from html import unescape
from pathlib import Path

import pytest
from sample_pages import pages

# A browser may not start its sandbox in a container.
CHROMIUM = [os.environ.get("CHROMIUM", "chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
DARK = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"]
MEASURE = """<script>
for (const part of document.querySelectorAll("details")) part.open = true;
const wide = document.documentElement.scrollWidth, color = getComputedStyle(document.body).backgroundColor;
document.documentElement.dataset.seen = JSON.stringify([innerWidth, wide, color]);
</script>"""


@pytest.mark.parametrize("name", ["check", "advise", "report", "table"])
def test_page_is_readable_narrow_dark_and_printed(name: str, tmp_path: Path) -> None:
    page = tmp_path / f"{name}.html"
    page.write_text(pages()[name].replace("</body>", f"{MEASURE}</body>"))

    def chromium(*options: str) -> str:
        command = [*CHROMIUM, f"--user-data-dir={tmp_path / 'profile'}", *options, page.as_uri()]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    light, dark = "rgb(246, 248, 250)", "rgb(13, 17, 23)"
    for width, options, color in ((500, DARK, dark), (500, [], light), (1400, [], light)):
        (seen,) = re.findall('data-seen="(.*?)"', chromium(f"--window-size={width},900", *options, "--dump-dom"))
        assert json.loads(unescape(seen)) == [width, width, color]
    for option, suffix, start in (("screenshot", ".png", b"\x89PNG"), ("print-to-pdf", ".pdf", b"%PDF")):
        file = page.with_suffix(suffix)
        chromium("--window-size=500,900", f"--{option}={file}")
        assert file.read_bytes().startswith(start) and file.stat().st_size > 10_000
