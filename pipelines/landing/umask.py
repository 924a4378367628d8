"""What a process of ours leaves to others in the files and folders that it makes."""

import os


def keep_others_out() -> None:
    """From here on nobody else may write into what this process and its children make, whatever the shell or
    a unit file allows; who may read it is theirs to say. For where a process of ours begins."""
    os.umask(os.umask(0o077) | 0o022)
