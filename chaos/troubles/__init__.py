"""What goes wrong while the workers land: a catalog that loses answers, retention, shards reshaped, faults
of the service, and requests that come again.
"""
