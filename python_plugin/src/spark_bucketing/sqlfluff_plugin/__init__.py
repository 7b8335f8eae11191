"""sqlfluff rules for the configs of bucketed models.

The rules use a model's config, its contract and the manifest. Only Spark's planner can judge a query.

sqlfluff finds this package through the entry point `sqlfluff`, and calls the functions below. The rules are imported in
get_rules() instead of at the top of the module. Otherwise, sqlfluff would warn that the rules are defined before it has
loaded all plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlfluff.core.config import load_config_resource
from sqlfluff.core.plugin import hookimpl

if TYPE_CHECKING:
    from sqlfluff.core.rules import BaseRule, ConfigInfo


@hookimpl
def get_rules() -> list[type[BaseRule]]:
    """Return all rules of this package."""
    from spark_bucketing.sqlfluff_plugin.rules import RULES

    return list(RULES)


@hookimpl
def load_default_config() -> dict[str, Any]:
    """Return the default values of the rules' settings."""
    return dict(load_config_resource(package="spark_bucketing.sqlfluff_plugin", file_name="plugin_default_config.cfg"))


@hookimpl
def get_configs_info() -> dict[str, ConfigInfo]:
    """Describe the settings that the rules have."""
    definition = "path of manifest.json, relative to the directory of dbt_project.yml; `none` for no manifest"
    return {"manifest": {"definition": definition}}
