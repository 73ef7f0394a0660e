"""What each family of records is held to. `store.verify` puts it together."""
