"""The lint rules.

Each rule has a class, whose docstring is its user documentation, and a file of cases in tests/cases/lint.
"""

from spark_bucketing.sqlfluff_plugin.rules.config_rules import CONFIG_RULES
from spark_bucketing.sqlfluff_plugin.rules.query_rules import QUERY_RULES

RULES = (*CONFIG_RULES, *QUERY_RULES)
