"""The ledger: what has landed, as values, as the fence of a landing, as text, and read from a table.

In: a table's metadata and manifests; what a landing brings.
Out: ledgers, what merges into them, what a table says of itself, where a shard starts.
May touch: the table, to read. Writes nothing.
"""
