"""One folder per logstore, and the dbt project; see `sls-lake` and `dg list defs`."""
