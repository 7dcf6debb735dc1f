"""Sessions: a step that is loaded on devices.

* queue: outputs that wait for their step
* executable: a program as a session is given it
* session: the lock and the end of a session
* iree: all ranks in one process, in IREE's runtime
* replay: one rank on a GPU, as a CUDA graph
* meeting: how a process that is one rank meets the others
* open_session: chooses the session and its device
* profiling: profiles of a loaded step
"""
