"""The little about a cluster that decides a translation: objects and configuration to Facts."""
