from fgrad import storage

storage.open_array("no_such_folder/weights.npy")
