import fgrad.numpy as fnp
from fgrad import interop

interop.save_safetensors("weights.safetensors", {"w": fnp.ones(3, dtype="complex128")})
