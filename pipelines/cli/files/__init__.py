"""Files of log lines: their formats recognised and read, their records packed into LogGroups."""
