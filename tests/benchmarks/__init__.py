"""What is measured; see each module for its command."""
