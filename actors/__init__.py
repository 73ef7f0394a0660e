"""What owns: who holds which fact in memory, and in which order things happen."""
