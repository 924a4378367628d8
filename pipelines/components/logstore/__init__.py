"""One logstore in Dagster: assets, check, schedule."""
