"""The SIM device: a graphics processor in software, for testing commands and queues.

Programs run on it as on hardware: planned on a compute and a copy queue, encoded into packets,
linked, put into rings. What a kernel computes is left to its twin on the host, the interpreter.
"""
