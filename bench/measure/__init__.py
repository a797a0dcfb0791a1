"""What every stage measures with: statistics, the machine, probes, launches, result files."""
