"""What gateway and worker agree on: the form of a job and of its answer, and the only code that speaks Redis."""
