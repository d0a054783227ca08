"""Who used which devices for how long: from changes of claims to the books of each day. Pure."""
