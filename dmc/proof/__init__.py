"""Proofs about the programs of all ranks, before a step ever runs: plain data in, a certificate or a counterexample
out."""

from dmc.program.certificate import PROPERTIES
from dmc.proof.verify import verify

__all__ = ["PROPERTIES", "verify"]
