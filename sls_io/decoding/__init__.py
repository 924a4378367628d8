"""LogGroup bytes to Arrow.

In: the groups of a page.
Out: chunks of columns, texts, and why a row is an error.
May touch: nothing but memory.
"""
