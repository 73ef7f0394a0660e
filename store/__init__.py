"""What is true, and the rules by which it may change."""
