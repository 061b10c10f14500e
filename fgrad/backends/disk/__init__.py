"""Files as memory: opened, read and written by pieces; no program runs there."""
