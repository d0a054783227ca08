"""Opens the page of an audit in a real browser, and checks that everybody can read it."""
