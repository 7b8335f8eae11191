"""Call the package's macros in dbt's Jinja environment, without a project and without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NoReturn

from dbt.context.base import get_context_modules
from dbt_common.clients.jinja import MacroReturn, get_dbt_macro_name, get_environment
from jinja2 import Template

from conftest import REPOSITORY


class CompilerError(Exception):
    """The error that exceptions.raise_compiler_error() raises."""


class _Exceptions:
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def raise_compiler_error(self, message: str) -> NoReturn:
        raise CompilerError(message)

    def warn(self, message: str) -> str:
        self.warnings.append(message)
        return ""


def _return(value: Any = None) -> NoReturn:
    raise MacroReturn(value)


class Macros:
    """The macros as functions; in the macros, `model` is this node."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        self.exceptions = _Exceptions()
        self._context = {
            "return": _return, "modules": get_context_modules(), "exceptions": self.exceptions, "model": model,
            "spark_bucketing": self, "zip": zip,
        }  # fmt: skip

    def __getattr__(self, name: str) -> Callable[..., Any]:
        module = _templates()[name].make_module(vars=self._context, shared=False)
        macro = getattr(module, get_dbt_macro_name(name))

        def call(*arguments: Any, **named: Any) -> Any:
            try:
                return macro(*arguments, **named)
            except MacroReturn as returned:
                return returned.value

        return call


@cache
def _templates() -> Mapping[str, Template]:
    """Return the template of each macro."""
    environment = get_environment(None)
    texts = [file.read_text() for file in sorted((REPOSITORY / "macros").rglob("*.sql"))]
    templates = {text: environment.from_string(text) for text in texts}
    return {name: templates[text] for text in texts for name in re.findall(r"{%-? macro (\w+)\(", text)}
