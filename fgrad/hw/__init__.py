"""The commands: memory, timelines and queues of devices (HCQ2).

In: Kernels and Executables. Out: Linked commands and launches. Promise: waits cover every edge;
faults are reported, never hang.
"""
