"""The machines: kernels and commands come in, code and bytes a device runs go out.

One room per machine behind one small Device interface. Promise: work given to a device finishes, or
fails with an error that names it; it never hangs and never ends the process.
"""
