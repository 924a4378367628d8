"""Generated trouble with known answers: values, LogGroups, answers of the service, sequences of verbs."""
