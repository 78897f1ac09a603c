"""A cluster with a dead node that no replica replaces: what concerns the other nodes goes on."""
