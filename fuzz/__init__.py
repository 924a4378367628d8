"""Generated trouble with known answers: values, LogGroups, answers of the service, sequences of verbs."""

import os

from tests.inherited import forget

forget(os.environ)
