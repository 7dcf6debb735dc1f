"""Thin adapters for other libraries' training loops, over the public interface of dmc.

* transformers: Hugging Face's `Trainer`
"""
