"""The lint rules.

Each rule has a class, whose docstring is its user documentation, and a file of cases in tests/cases/lint.
"""

from sqlfluff.core.rules import BaseRule

from spark_bucketing.sqlfluff_plugin.rules import config_rules, query_rules

RULES: tuple[type[BaseRule], ...] = tuple(
    rule for module in (config_rules, query_rules) for name, rule in vars(module).items() if name.startswith("Rule_")
)
