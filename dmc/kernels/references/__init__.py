"""References of the kernels, in float64 and plain PyTorch: slow, and easy to read."""
