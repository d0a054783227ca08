"""What is wrong with a claim before any device is looked at."""
