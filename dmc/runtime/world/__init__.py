"""One process for each rank of a mesh: how the processes meet, agree, talk, and notice that one of them is gone.

In reading order:

* `launch`: which rank this process is, as the launcher says (torchrun, Open MPI, MPICH, Slurm).
* `store`: values by key that all ranks see, and what ranks do with it: exchange values, wait for each other.
* `tcp_store`, `board`: the two stores there are, of torchrun and of MPI.
"""
