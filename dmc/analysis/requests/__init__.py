"""What the user asks for, written into the module so that a dump of any form can be resumed.

* settings: target, machine, memory cap
* plan: what the plan says of the tensors that `@step` takes
* values: what the plan says of values that `@step` computes
* modules: what the modules of the user's model take and give
"""
