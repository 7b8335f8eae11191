"""Generate the page about the rules of the sqlfluff plugin, from the docstrings of the rules."""

from __future__ import annotations

import inspect
import re
import textwrap

from sqlfluff.core.plugin.host import get_plugin_manager
from sqlfluff.core.rules import BaseRule

HEAD = """# Lint rules

Use this page to look up a rule that `sqlfluff` reports for a bucketed model.

[Lint in the editor](../how-to/lint-in-the-editor.md) shows how to install and configure the rules. To select or exclude
rules, use the code or name of a rule, or the group `spark_bucketing` for all of them.

"""


def page() -> str:
    """Return the text of the page."""
    # sqlfluff must load its plugins before it accepts a rule.
    get_plugin_manager()
    from spark_bucketing.sqlfluff_plugin.rules import RULES

    return "\n".join([HEAD + "\n".join(map(_line, RULES)), "", *map(_section, RULES)])


def _slug(rule: type[BaseRule]) -> str:
    return rule.name.rpartition(".")[2]


def _line(rule: type[BaseRule]) -> str:
    summary = _markdown((rule.__doc__ or "").partition("\n")[0].rstrip("."))
    fixed = ". `sqlfluff fix` repairs it" if rule.is_fix_compatible else ""
    return f"- [`{rule.code}`](#{_slug(rule)}) `{rule.name}`: {summary}{fixed}"


def _section(rule: type[BaseRule]) -> str:
    # sqlfluff adds these lines to the docstring, but the list at the top of the page already contains them.
    text = re.sub(r"\n+ *This rule is ``sqlfluff fix`` compatible\.\n", "\n", rule.__doc__ or "")
    text = re.sub(r"\n+ *\*\*(Name|Aliases|Groups)\*\*: .*\n", "\n", text)
    text = re.sub(r"\n+ *\*\*Configuration\*\*\n+(?: *\* .*\n)+", "\n", text)
    text = _markdown(inspect.cleandoc(text) + "\n")
    blocks = re.sub(r"\.\. code-block:: sql\n\n((?:    .*\n|\n)+)", _fenced, text)
    return f"## {_slug(rule)}\n\n" + re.sub(r"\n{3,}", "\n\n", blocks).strip() + "\n"


def _fenced(block: re.Match[str]) -> str:
    return f"```sql\n{textwrap.dedent(block[1]).strip()}\n```\n\n"


def _markdown(text: str) -> str:
    return text.replace("``", "`")
