"""Whether a plan makes use of buckets, and if not, why not and what to change."""

from spark_bucketing.eligibility.judging import judge, tables_of
from spark_bucketing.eligibility.project_rules import PROJECT_RULES, project_findings
from spark_bucketing.eligibility.rules import AT_THE_END
from spark_bucketing.eligibility.rules import RULES as _RULES
from spark_bucketing.eligibility.settings import SETTINGS, Settings

RULES = (*_RULES, AT_THE_END)

__all__ = ["PROJECT_RULES", "RULES", "SETTINGS", "Settings", "judge", "project_findings", "tables_of"]
