from fgrad.kernels import program_id

program_id(0)
