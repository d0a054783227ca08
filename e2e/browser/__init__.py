"""Opens the pages in a real browser: everybody can read them, and nobody else gets them."""
