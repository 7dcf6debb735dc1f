"""One process per rank of a mesh: rendezvous, agreement, communication, failure detection and checkpoints.

* launch: rank and world of this process, from the launcher (torchrun, Open MPI, MPICH, Slurm)
* store: the key-value store of all ranks, with exchanges and barriers
* tcp_store: serves the store under torchrun
* board: serves the store under MPI
* agreement: ranks start only if all are about to run the same
* communicator: the interface of collectives
* nccl: collectives on GPUs
* host: collectives between CPU processes, for tests
* neighbours: the memory that ranks of one host share
* shared_words: the flags between their streams
* direct: movements between the GPUs of one host by their copy engines
* meetings: when ranks meet around these
* channels: the communicators of a rank, and the collectives of its program
* recorder: the flight recorder: where a rank is, and how long its last steps took
* watch: heartbeats; when a rank dies, stalls or raises, all ranks end with an error that names it
* signals: SIGTERM, as an event that a thread can wait for
* peers: all of this, as the session of a rank uses it
* shards: the file of a rank in a checkpoint
* checkpoint: sharded checkpoints, written asynchronously and committed atomically
"""
