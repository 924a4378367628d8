"""One call of the service: signed, sent, tried again, its answer a value or an error. A window, page by page.

In: a request, keys, a window.
Out: an answer, raw pages.
May touch: sockets.
"""
