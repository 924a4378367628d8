"""The one way into the table: requests with their fence, sent once.

In: files and a ledger, or a person's change, and the table exactly as it was looked at.
Out: a snapshot, or the reason why there is none.
May touch: the catalog, and manifests that nobody sees yet.
"""
