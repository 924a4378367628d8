"""The demo and `dev`: a lake on a laptop, from generated logs to the proof.

In: a folder, real or generated lines.
Out: a table with all of them, and the audit that says so.
May touch: its folder, an emulator, processes that it starts.
"""
