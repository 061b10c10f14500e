from fgrad import interop

interop.load_safetensors("no_such_folder/weights.safetensors")
