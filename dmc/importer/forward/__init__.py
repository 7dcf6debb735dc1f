"""The exported graph, run under autograd with composites in place of what they mean.

* attention: masks that are constant, scores that were modified
* patterns: composites that models spell out
* forward: runs the graph
* memory_layout: results have eager's strides
* narrow_integers: 8 and 16 bits, computed with 32
* complex_numbers: as pairs
* statistics: that normalisations change
* precision: the type in which each operation runs
* expansion: expansions that repeat nothing, as views
* random_numbers: of each place that draws
* registry: the table of rules
* rules: ATen operations → composites
* losses: losses against class indices
* rnn: LSTM and GRU as loops over a cell
* assertions: about values
* readings: what operations read as indices
* chosen: what masks choose, of whole tensors
* linear_systems: inverses and solutions
* rows: distances, embeddings, experts, segments
* images: windows, places and sizes of images
"""
