"""What the emulator keeps: logs in memory, a journal on disk, what is saved of a damaged one.

In: logs and changes of a project.
Out: the same after a restart, or what is wrong with the folder.
May touch: the data folder.
"""
