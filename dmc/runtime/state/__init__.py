"""The state of a step: parameters, buffers, optimizer state and counters.

* dictionaries: state dictionaries, by the user's names
* held_state: the state in the memory of devices
* fingerprints: what tells frozen tensors apart
* weights: a model's weights in safetensors files
* step_state: the state of a loaded step
* saved_state: the state in a file or a checkpoint
"""
