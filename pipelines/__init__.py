"""The lake side: Dagster definitions, landing, command line."""
