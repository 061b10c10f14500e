import fgrad

kept = []
double = fgrad.jit(lambda x: x * 2)
fgrad.jit(kept.append)(1.0)
double(kept[0])
