"""Form planned as plain data, and the events that its lanes require.

* jobs: a module in form planned → `dmc.program.Job`
* conflicts: earlier commands that access the same bytes
* clocks: commands that are already ordered
* events: the events still required
"""
