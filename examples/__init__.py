"""Short programs to copy from; each says at its head what it shows and how to run it."""
