"""Addresses, and the contents of every byte while `@step` runs.

* packing: offsets for live ranges
* plan: one arena for each memory space
* attributes: addresses as attributes, and back
* buffers: contents over time, by readable names
* peak: peak memory of `@step`
* handles: V1 and V2: handles are waited for once, and borrowed values are not touched
* contents: V2, V7 and V8: the contents of every byte
"""
