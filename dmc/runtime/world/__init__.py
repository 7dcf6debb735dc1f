"""One process per rank of a mesh: rendezvous, agreement, communication, failure detection and checkpoints.

In reading order:

* `launch`: rank and world of this process, from the launcher (torchrun, Open MPI, MPICH, Slurm).
* `store`: the key-value store of all ranks, with exchanges and barriers.
* `tcp_store`, `board`: what serves it under torchrun and under MPI.
* `agreement`: ranks start only if all are about to run the same.
* `communicator`: the interface of collectives; `nccl`, `host`: on GPUs, and between CPU processes, for tests.
* `neighbours`, `shared_words`: the memory that ranks of one host share, and the flags between their streams.
* `direct`, `meetings`: movements between the GPUs of one host by their copy engines, and when ranks meet around them.
* `channels`: the communicators of a rank, and the collectives of its program.
* `recorder`: the flight recorder: where a rank is, and how long its last steps took.
* `watch`, `signals`: heartbeats; when a rank dies, stalls or raises, all ranks end with an error that names it.
* `peers`: all of this, as the session of a rank uses it.
* `checkpoint`, `shards`: sharded checkpoints, written asynchronously and committed atomically.
"""
