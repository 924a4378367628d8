"""From the service's shards to rows of a table, and everything that is done with these afterwards.

Each folder is a room, and its head says what it may touch. The map in ARCHITECTURE.md has them from the top
to the bottom: a room imports from those below it.
"""
