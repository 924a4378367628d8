"""What a person asks for where a table is not what its catalog or its ledger says."""
