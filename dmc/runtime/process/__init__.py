"""What is of a process, not of a step: its signals, forks, threads, processor and settings.

* settings: settings of running a step, from environment variables
* undisturbed: code that no signal cuts in two
* forked: drivers of devices in a forked process
* uncopied: objects that are neither pickled nor copied
* side_by_side: work in several threads
* cpu: whether this machine's processor can run compiled code
"""
