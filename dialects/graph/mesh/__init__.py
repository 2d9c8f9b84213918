"""A graph on many ranks: meshes, shardings, and the collectives between ranks."""
