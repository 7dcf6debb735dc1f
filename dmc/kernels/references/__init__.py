"""What the kernels compute, in float64 and plain PyTorch: slow, and easy to read."""
