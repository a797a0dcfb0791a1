"""Benchmarks on a GPU: which parts there are, what their lines mean, pictures of them."""
