"""What is wrong with slices, pools and classes."""
