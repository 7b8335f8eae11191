"""Read and write YAML, keeping comments, quotes and indentation."""

from __future__ import annotations

import io
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.util import load_yaml_guess_indent


def loaded(text: str) -> tuple[YAML, Any]:
    """Parse YAML text.

    Return the data, and the `YAML` instance that writes it in the same style.
    """
    _, indent, offset = load_yaml_guess_indent(text) if text.strip() else (None, None, None)
    sequence = indent or 4
    depths = [len(line) - len(line.lstrip()) for line in text.splitlines() if line.lstrip()[:1] not in ("", "#", "-")]
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 10_000
    yaml.indent(
        mapping=min(filter(None, depths), default=2),
        sequence=sequence,
        offset=offset if offset is not None else sequence - 2,
    )
    return yaml, yaml.load(text)


def dumped(yaml: YAML, data: Any) -> str:
    """Return edited YAML data as text."""
    stream = io.StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()
