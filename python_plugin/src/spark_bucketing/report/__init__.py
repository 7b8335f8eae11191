"""Write the reports of all commands."""
