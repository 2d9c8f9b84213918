"""Many ranks: collectives, and training beside PyTorch."""
