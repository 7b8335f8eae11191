"""Plan SQL with Spark over hypothetical tables.

| whatif = WhatIf(session)                              uses a separate session, see open_beside
| whatif.define(HypotheticalTable("shop.users", ...))   defines a table
| whatif.plan(sql, [other_users], settings)             replaces tables and settings for this query only
"""

from spark_bucketing.plan.whatif.hypothetical_table import HypotheticalTable
from spark_bucketing.plan.whatif.what_if import WhatIf

__all__ = ["HypotheticalTable", "WhatIf"]
