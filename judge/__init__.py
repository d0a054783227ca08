"""What can never work, one module per question. Pure."""
