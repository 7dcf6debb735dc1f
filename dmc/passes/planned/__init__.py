"""Form scheduled → form planned: one program per rank, on byte ranges, with events.

* plan_memory: the address of every value
* lower_to_plan: one program for all ranks
* join_stages: the programs of a pipeline's stages in one module
* place_events: lanes wait for each other where their accesses conflict
"""
