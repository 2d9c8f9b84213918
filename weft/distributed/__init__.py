"""Programs that many ranks run together: threads, processes of one machine, or those of MPI."""
