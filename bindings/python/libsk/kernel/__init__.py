"""What a Python rank of a notebook does with a cell: ``python -m libsk.kernel``.

The controller starts one such process for each rank. Cells arrive through the rank half of
``sk/worker.h`` and run in IPython's shell; text, displays and errors go back the same way.
Descriptors 1 and 2 are captured by libsk, so output of C code and of child processes arrives too.
"""
