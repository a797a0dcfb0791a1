"""The stages of the benchmark: each measures one group of goals and writes one result file."""
