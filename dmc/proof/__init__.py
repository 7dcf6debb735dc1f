"""Proofs about the programs of all ranks, before a step ever runs: plain data in, a certificate or a story out."""

from dmc.proof.verify import PROPERTIES, verify

__all__ = ["PROPERTIES", "verify"]
