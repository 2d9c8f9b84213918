"""How much of PyTorch weft takes: OpInfo's operators and models, through torch.compile."""
