"""A model's weights in safetensors files, as `transformers` writes and reads them.

* files: one, or a folder with an index and shards
* names: which tensors of a step are which of the files
* loading: from files into each rank's part of the state
* saving: from the state into shards
"""
