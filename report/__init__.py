"""How a cluster is drawn for a person: page models and text. Pure."""
