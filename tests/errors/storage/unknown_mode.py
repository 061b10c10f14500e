from fgrad import storage

storage.open_array("weights.npy", mode="w")
