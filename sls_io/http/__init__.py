"""One call of the service: signed, sent, tried again, its answer mapped to a value or an error.

In: a request, keys.
Out: an answer.
May touch: sockets.
"""
