"""The Triton source of the kernels. Imported only where it is compiled or interpreted."""
