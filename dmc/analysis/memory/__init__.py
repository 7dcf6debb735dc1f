"""Where everything lies in memory, and what every byte holds while `@step` runs.

* packing: lifetimes get offsets
* plan: one arena for each memory space
* attributes: places as attributes, and back
* buffers: what is held when, by the names that people know
* peak: where `@step` holds most
* handles: V1 and V2: handles are waited for once, and what is borrowed is left alone
* contents: V2, V7 and V8: what every byte holds
"""
