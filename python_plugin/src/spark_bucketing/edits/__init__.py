"""Edit the configs of models in the files of the user's project."""

from spark_bucketing.edits.file_edits import FileEdit, Refusal, apply, unified_diff
from spark_bucketing.edits.plan_edits import plan_edits

__all__ = ["FileEdit", "Refusal", "apply", "plan_edits", "unified_diff"]
