"""The functions of the language, one module per library; each declares types, meaning and cost."""
