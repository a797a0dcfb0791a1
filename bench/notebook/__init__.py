"""What a notebook on many ranks costs: start, cells, memory, output, interrupts, deaths."""
