import fgrad

fgrad.new_ref({"w": 1.0})
