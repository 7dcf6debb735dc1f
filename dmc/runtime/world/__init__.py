"""One process for each rank of a mesh: how the processes meet, agree, talk, and notice that one of them is gone.

In reading order:

* `launch`: which rank this process is, as the launcher says (torchrun, Open MPI, MPICH, Slurm).
* `store`: values by key that all ranks see, and what ranks do with it: exchange values, wait for each other.
* `tcp_store`, `board`: the two stores there are, of torchrun and of MPI.
* `agreement`: all ranks are about to run the same, or none starts.
* `host`: movements between processes on CPUs, for tests.
* `recorder`: where a rank stands, and how long its last steps took.
* `watch`, `signals`: a rank that dies, stalls or raises is noticed by the others, which end.
* `checkpoint`, `shards`: the state of all ranks on disk, written beside the steps, whole or not there at all.
"""
