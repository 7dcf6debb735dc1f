"""The exported graph, run under autograd with composites in place of what they mean.

* masks: constant attention masks
* patterns: composites that models spell out
* forward: runs the graph
<<<<<<< HEAD
* precision: the type in which each operation runs
* randomness: separate draws for each place that draws
=======
* memory_layout: results lie in memory as eager's do
* precision: which operations run in which type
* randomness: each place that draws has draws of its own
>>>>>>> first
* rules: ATen operations → composites
* losses: losses against class indices
* rnn: LSTM and GRU as loops over a cell
* upsampling: nearest-neighbour upsampling
"""
