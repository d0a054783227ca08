"""The domain: devices, slices, claims and the rules between them. Pure; knows no one else."""
