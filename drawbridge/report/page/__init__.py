"""The page of a cluster: nodes with their devices and holders, waiting pods, and the migration.

`compose` makes the data of the page from the objects that the caller may read, and `written` makes
HTML of it, in parts that change on their own. Pure: `cli.served_page` reads and serves.
"""
