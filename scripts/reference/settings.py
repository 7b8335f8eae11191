"""Generate the page about the settings of the session extension, from the Scala code that registers them."""

from __future__ import annotations

import re
from pathlib import Path

from reference.markdown import table

SCALA = Path(__file__).parents[2] / "python_plugin" / "src" / "spark_bucketing" / "extension" / "scala"
SOURCE = SCALA / "BucketingConf.scala"
ENTRY = re.compile(
    r'conf\("(?P<name>[\w.]+)",(?P<doc>(?:\s*"[^"]*"\s*\+?)+)\)\s*'
    r"\.(?P<type>\w+)Conf.*?create(?:Optional|WithDefault(?:String)?\((?P<default>.*?)\))",
    re.DOTALL,
)
TYPES = {"boolean": "boolean", "int": "integer", "long": "integer", "bytes": "size", "string": "string", "time": "time"}
HEAD = """# Settings

Use this page to change what the session extension does, for a session or for a single query.

You can change every setting in a running session, for example with `SET spark.bucketing.enabled=false`. A size is a
number with a unit, such as `256m`, or a number of bytes. A time is a number with a unit, such as `60s`.

"""


def page() -> str:
    """Return the text of the page."""
    entries = sorted(ENTRY.finditer(SOURCE.read_text()), key=lambda entry: entry["name"])
    return HEAD + table(["setting", "type", "default", "meaning"], map(_row, entries))


def _row(entry: re.Match[str]) -> tuple[str, str, str, str]:
    text = "".join(re.findall(r'"([^"]*)"', entry["doc"]))
    default = f"`{entry['default'].strip(chr(34))}`" if entry["default"] else "none"
    return f"`spark.bucketing.{entry['name']}`", TYPES[entry["type"]], default, text
