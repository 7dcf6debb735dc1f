"""Kernels, hand-written or generated: their semantics, code and references."""
