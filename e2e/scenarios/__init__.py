"""What is shown on a real control plane, one behaviour a function."""
