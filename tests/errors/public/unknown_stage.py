import fgrad

fgrad.jit(lambda x: x * 2).lower(1.0).as_text("hlo")
