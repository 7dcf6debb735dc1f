"""Form planned as plain data, and the events that its lanes need.

* jobs: a module in form planned → `dmc.program.Job`
* conflicts: which earlier commands touch the same bytes
* clocks: which commands are ordered already
* events: the events that are still needed
"""
