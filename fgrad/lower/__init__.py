"""From programs to kernels: Program and device limits come in, kernels in order and one LLVM module
go out.

Promised: the same values as the reference evaluator, independent of the number of threads, in
time linear in the size of the program. Nothing here knows a device beyond the plain numbers of
`Limits`.
"""
