"""The user's requests, written into the module so that a dump of any form can be resumed.

* settings: target, machine, memory cap
* plan: the plan's placements of arguments of `@step`
* values: the plan's placements of values in `@step`
* state: addresses of state that another program shares
* modules: inputs and outputs of the user's modules
"""
