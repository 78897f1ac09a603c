"""Proofs: each shows a promise of the product, or that its tests would see it broken. See docs/proofs.md."""
