"""What things cost: CPU, memory, requests, against figures that are kept."""

import os

from tests.inherited import forget

forget(os.environ)
