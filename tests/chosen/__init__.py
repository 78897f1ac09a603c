"""Which tests a change needs: what each test ran when it was recorded, and what the change touches."""
