"""Rules about buckets for sqlfluff: what can be known of a model from its text, its config and the manifest.

sqlfluff finds this by the entry point `sqlfluff`, and calls the hooks. The rules are imported when it asks for them,
since it warns of rules that are defined before all plugins are loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlfluff.core.config import load_config_resource
from sqlfluff.core.plugin import hookimpl

if TYPE_CHECKING:
    from sqlfluff.core.rules import BaseRule, ConfigInfo


@hookimpl
def get_rules() -> list[type[BaseRule]]:
    """All rules of this package."""
    from spark_bucketing.sqlfluff_plugin.rules import RULES

    return list(RULES)


@hookimpl
def load_default_config() -> dict[str, Any]:
    """The defaults of the rules' settings."""
    return dict(load_config_resource(package="spark_bucketing.sqlfluff_plugin", file_name="plugin_default_config.cfg"))


@hookimpl
def get_configs_info() -> dict[str, ConfigInfo]:
    """What the settings mean."""
    return {
        "manifest": {
            "definition": "manifest.json of the dbt project, or none; a relative path begins where dbt_project.yml is"
        }
    }
