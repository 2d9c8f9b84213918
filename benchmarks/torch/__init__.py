"""How much of PyTorch weft takes: OpInfo's operators and a list of models, through torch.compile."""
