from fgrad import storage

storage.create_array("weights.dat", (3,), "float32")
