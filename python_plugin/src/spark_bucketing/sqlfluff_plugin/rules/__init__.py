"""The rules. A class each, whose docstring users read; a file of cases each below tests/cases/lint."""

from spark_bucketing.sqlfluff_plugin.rules.config_rules import CONFIG_RULES
from spark_bucketing.sqlfluff_plugin.rules.query_rules import QUERY_RULES

RULES = (*CONFIG_RULES, *QUERY_RULES)
