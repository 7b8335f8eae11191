"""Generate the section "Rules" of docs/rules.md from docstrings; the text above it is hand-written."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

from sqlfluff.core.plugin.host import get_plugin_manager
from sqlfluff.core.rules import BaseRule

TARGET = Path(__file__).parents[1] / "docs" / "rules.md"
HEADING = "\n## Rules\n"


def page() -> str:
    """Return the text of the page."""
    # sqlfluff warns about rules that are imported before all plugins are loaded.
    get_plugin_manager()
    from spark_bucketing.sqlfluff_plugin.rules import RULES

    by_hand = TARGET.read_text().partition(HEADING)[0]
    return "\n".join([by_hand + HEADING, *map(_line, RULES), "", *map(_section, RULES)])


def _slug(rule: type[BaseRule]) -> str:
    return rule.name.rpartition(".")[2]


def _line(rule: type[BaseRule]) -> str:
    summary = _markdown((rule.__doc__ or "").partition("\n")[0].rstrip("."))
    fixed = "; `sqlfluff fix` fixes it" if rule.is_fix_compatible else ""
    return f"- [`{rule.code}`](#{_slug(rule)}) `{rule.name}`: {summary}{fixed}"


def _section(rule: type[BaseRule]) -> str:
    # The list of rules already contains the lines that sqlfluff adds to the docstring.
    text = re.sub(r"\n+ *This rule is ``sqlfluff fix`` compatible\.\n", "\n", rule.__doc__ or "")
    text = re.sub(r"\n+ *\*\*(Name|Aliases|Groups)\*\*: .*\n", "\n", text)
    text = re.sub(r"\n+ *\*\*Configuration\*\*\n+(?: *\* .*\n)+", "\n", text)
    text = _markdown(inspect.cleandoc(text) + "\n")
    blocks = re.sub(r"\.\. code-block:: sql\n\n((?:    .*\n|\n)+)", _fenced, text)
    return f"### {_slug(rule)}\n\n" + re.sub(r"\n{3,}", "\n\n", blocks).strip() + "\n"


def _fenced(block: re.Match[str]) -> str:
    return f"```sql\n{textwrap.dedent(block[1]).strip()}\n```\n\n"


def _markdown(text: str) -> str:
    return text.replace("``", "`")


if __name__ == "__main__":
    TARGET.write_text(page())
