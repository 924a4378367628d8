"""The steps, oldest first. A step may be begun a second time: MySQL commits each statement by itself."""
