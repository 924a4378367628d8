"""What settles an error or a trouble, as values: a command of the program, or what a person does by hand.

A sentence says what is wrong, and its cures stand beside it. So nobody has to find a command in a text: who
shows them adds the program, the logstore and `--execute`, and a test parses every one of them. The commands
themselves, and how they become text, stand on the landing's side (`commands.py`).
"""

from typing import NamedTuple


class Call(NamedTuple):
    """A command of the program.

    words     verb and options, without the program, the logstore and `--execute`
    harmless  it takes no row away: shown so that it does what it says. Any other is shown as its dry run,
              which tells what it would cost, and ends with the call that does it
    does      what it does, where that is not plain from the error or where there are several
    """

    words: tuple[str, ...]
    harmless: bool = False
    does: str = ""

    def plus(self, *words: str, does: str = "") -> "Call":
        """The same with more words."""
        return self._replace(words=(*self.words, *words), does=does or self.does)


class Do(NamedTuple):
    """What no command of the program does: a file to restore, a statement for another engine, a setting."""

    text: str


Cure = Call | Do
