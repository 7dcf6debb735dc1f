"""The user's requests, written into the module so that a dump of any form can be resumed.

* settings: target, machine, memory cap
* structure: the rules that a plan's `megatron` stands for in one model
* factors: what the dimensions of parameters are made of
* cuts: where a pipeline whose cuts are balanced is cut
* heads: copies of heads of keys and values that are fewer than ranks
* plan: the plan's placements of arguments of `@step`
* pipeline: the stages into which the plan cuts the model
* values: the plan's placements of values in `@step`
* keeping: what is kept for the backward pass by the user's word
* verbs: what the schedule language says of kernels and movements
* modules: inputs and outputs of the user's modules
"""
