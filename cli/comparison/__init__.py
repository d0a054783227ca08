"""Several clusters in one table, for `audit` and `doctor`: contexts, or a folder of dumps."""
