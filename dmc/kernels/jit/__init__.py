"""The Triton source of the kernels. Imported only where code is made of it, or where it is interpreted."""
