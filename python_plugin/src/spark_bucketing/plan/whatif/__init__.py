"""What Spark would plan: the same SQL over tables that need not exist.

| whatif = WhatIf(session)                              a session of its own, see open_beside
| whatif.define(HypotheticalTable("shop.users", ...))   what a name means from now on
| whatif.plan(sql, [other_users], settings)             a question: other tables and settings for this query alone
"""

from spark_bucketing.plan.whatif.hypothetical_table import HypotheticalTable
from spark_bucketing.plan.whatif.what_if import WhatIf

__all__ = ["HypotheticalTable", "WhatIf"]
