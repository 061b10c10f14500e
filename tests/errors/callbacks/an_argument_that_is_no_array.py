import fgrad

fgrad.pure_callback(lambda x, mode: x, fgrad.ShapeDtypeStruct((), "float32"), 1.0, "fast")
